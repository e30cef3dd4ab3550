import type { LockStoreError } from '../lock.errors.js';
import type { LockInspector } from './lock-inspector.js';

/** The store did not answer in time, or refused: what is true there is not known. */
export interface Unknown {
  readonly kind: 'unknown';
  readonly cause: LockStoreError;
  /** Asking again will not help: the store is there, but the key is not what it should be. */
  readonly isLasting?: boolean;
  /** The store is there, but refuses it as long as somebody does not give it back to us: a right, for example. */
  readonly isRefused?: boolean;
  /**
   * The command was not carried out, and will not be: it has left nothing to take back. @default false: nobody knows
   */
  readonly neverRan?: boolean;
}

/** The key now belongs to `token`. */
export interface Granted {
  readonly kind: 'granted';
  readonly token: string;
  /** Fencing token of the first hold under this lease. */
  readonly fence: number;
  /** Highest fencing token that may be used before the next renewal. */
  readonly blockEnd: number;
  /** How many other processes wait for the key. */
  readonly waiters: number;
}

/** `token` stands in the queue. */
export interface Queued {
  readonly kind: 'queued';
  readonly token: string;
  /** Its position in the queue. A re-check, which brings a new token, names it again. */
  readonly position: number;
  /** How long the present lease lasts if nobody renews it; Infinity if it has no end. */
  readonly remainingMs: number;
  /** The holder is a client of another kind: it will not tell when it leaves. */
  readonly foreign: boolean;
}

/** Held, or others were first; the token was not queued. */
export interface Busy {
  readonly kind: 'busy';
  /** How long the present lease lasts if nobody renews it; Infinity if it has no end. */
  readonly remainingMs: number;
  /** The holder is a client of another kind: it will not tell when it leaves. */
  readonly foreign?: boolean;
  /** Of several keys asked for together: this one was free and not waited for, but not taken because of the others. */
  readonly wasFree?: boolean;
}

/** Asks for the lease of a key. */
export interface AcquireCommand {
  readonly key: string;
  /** A new token: it is introduced by this command. */
  readonly token: string;
  /** How long the lease is to last, in milliseconds. */
  readonly leaseMs: number;
  /** True: one try, the queue is neither joined nor overtaken. */
  readonly nowait: boolean;
  /** A position in the queue kept from an earlier attempt. */
  readonly position?: number;
}
/** What became of a request for a lease. */
export type AcquireReply = Granted | Queued | Busy | Unknown;

/** Looks again whether it is a waiter's turn, with a new token in the old one's position. */
export interface RecheckCommand {
  readonly key: string;
  /** The token that waits now. */
  readonly token: string;
  /** The token that takes its position. */
  readonly newToken: string;
  /** How long the lease is to last, in milliseconds. */
  readonly leaseMs: number;
  /** The waiter's position in the queue. */
  readonly position: number;
}
/** What became of a waiter. */
export type RecheckReply = Granted | Queued | Unknown;

/** Makes a lease last longer. */
export interface RenewCommand {
  readonly key: string;
  /** The token that has the lease. */
  readonly token: string;
  /** How long the lease is to last from now on, in milliseconds. */
  readonly leaseMs: number;
  /** Highest fencing token used so far. */
  readonly used: number;
  /** Whether more fencing tokens are needed. */
  readonly reserves: boolean;
}
/** The lease lasts longer. */
export interface Renewed {
  readonly kind: 'renewed';
  /** Highest fencing token that may be used before the next renewal; 0 if none were asked for. */
  readonly blockEnd: number;
  readonly waiters: number;
}
/** The store answered: not yours. */
export interface Lost {
  readonly kind: 'lost';
}
/** What became of a renewal. */
export type RenewReply = Renewed | Lost | Unknown;

/** Gives a lease up. */
export interface ReleaseCommand {
  readonly key: string;
  /** The token that has the lease. */
  readonly token: string;
  /** Highest fencing token used; 0 = not known, the stored bound stays. */
  readonly used: number;
  /**
   * How long the key stays taken although nobody holds it, counted from the call, however long the command waits until
   * it is sent. @default 0: the next waiter gets it
   */
  readonly keepMs?: number;
}
/** What became of a release. */
export type ReleaseReply = { readonly kind: 'released' } | Lost | Unknown;

/** Gives a lease up and asks for it again, in one step. */
export interface RequeueCommand extends Omit<ReleaseCommand, 'keepMs'> {
  /** Joins the queue, or gets the lease again at once if nobody waits before it. */
  readonly newToken: string;
  /**
   * For how long the call has waited for which it asks, in milliseconds: its position is before those who came later.
   * @default 0: the end of the queue
   */
  readonly waitedMs?: number;
  /** How long the new lease is to last, in milliseconds. */
  readonly leaseMs: number;
}
/** What became of both steps. */
export type RequeueReply =
  | ((Granted | Queued) & {
      /** The old token no longer had the lock. */
      readonly wasLost?: boolean;
    })
  | (Unknown & {
      /**
       * The first step was carried out, and whether the old token had the lock until then; only the second one is
       * unknown. @default both steps are unknown
       */
      readonly wasReleased?: boolean;
    });

/** Ends a wait with a last try: takes the lease if it is ours or free, and leaves the queue if not. */
export interface LeaveCommand {
  readonly key: string;
  /** The waiting token and, while a re-check is in flight, the one that replaces it. */
  readonly tokens: readonly [string, string?];
  /** How long a lease that is taken is to last, in milliseconds. */
  readonly leaseMs: number;
}
/** What became of the waiter: it is gone, unless the last try gave it the lease. */
export type LeaveReply = Granted | { readonly kind: 'left' } | Unknown;

/**
 * Takes back a position in the queue, or a lease if one of the tokens has got it meanwhile; the next waiter gets that.
 */
export interface TakeBackCommand {
  readonly key: string;
  /** Up to two tokens of this process, of which nobody makes use any more. */
  readonly tokens: readonly [string, string?];
  /** Highest fencing token used. @default 0: not known, the stored bound stays */
  readonly used?: number;
  /**
   * As with a release; the key is kept also if it is free because the lease has ended meanwhile.
   * @default 0: the next waiter gets it
   */
  readonly keepMs?: number;
}
/** Nothing of it is left in the store, or nobody knows. */
export type TakeBackReply = { readonly kind: 'left' } | Unknown;

/** What reaches a process without its asking. Every message is a hint: it may be lost, late, or doubled. */
export type InboxMessage =
  | {
      readonly kind: 'grant';
      readonly key: string;
      readonly token: string;
      readonly fence: number;
      readonly blockEnd: number;
      readonly waiters: number;
      /** The short lease within which the grant must be used or confirmed, as the granter set it. */
      readonly acceptMs: number;
    }
  /** Another process asks for the key that `token` holds. */
  | { readonly kind: 'wanted'; readonly key: string; readonly token: string }
  /** `token` is the next in the queue; the lease ahead of it lasts `ms` at most unless it is confirmed. */
  | { readonly kind: 'head'; readonly key: string; readonly token: string; readonly ms: number }
  /** An operator has taken the key from `token`; the next waiter enters in a second. */
  | { readonly kind: 'revoked'; readonly key: string; readonly token: string };

/**
 * What a store tells the engine that uses it. `node` names the server that it concerns, for a store on several servers
 * that fail on their own; each has keys of its own (`LockStore.nodeOf`). Only `storeLost` and `storeBack` may give
 * another name of an outage (`LockStore.outagesOf`).
 */
export interface StoreListener {
  /** A message in the inbox of this process. */
  message(message: InboxMessage): void;
  /** The inbox was subscribed (again), or the command connection is ready (again): messages may have been lost. */
  reconnected(node?: string): void;
  /** The inbox is down: no message will arrive until `inboxBack`. */
  inboxLost(node?: string, cause?: LockStoreError): void;
  /** It could not be restored at once, although the store can be reached. */
  inboxFails?(cause: LockStoreError, node?: string): void;
  /** Messages arrive again, or none are expected from there any more. @default `reconnected` means it */
  inboxBack?(node?: string): void;
  /** The store refuses something that we need, and did not when it was opened. */
  rightsLost?(cause: LockStoreError, node?: string): void;
  /** It refuses nothing any more, or nothing is needed from there. */
  rightsBack?(node?: string): void;
  /** A connection that had been idle was dead, and was made anew in time. No call failed because of that. */
  connectionReplaced?(cause: LockStoreError): void;
  /** The store cannot be reached, or has fallen silent. */
  storeLost(cause: LockStoreError, node?: string): void;
  /** It answers again, or its keys are elsewhere now. */
  storeBack(node?: string): void;
  /** The store is set to drop keys when its memory is full: leases as well as others. */
  mayEvict(policy: string): void;
}

/**
 * Where leases are kept. No method rejects: a failure is the reply `unknown`, given within the store's own time
 * limit. Commands for one key run in the order of the calls. Repeating a command with the same tokens is harmless.
 */
export interface LockStore {
  /** Unique for this process and store, 32 hex digits: the part of a token before the colon, and its inbox. */
  readonly processId: string;
  /** Whether messages about this key can arrive now. If not, those who wait for it look more often. */
  listensFor(key: string): boolean;
  /** The node of the store that has this key now. @default the store has one node only, without a name */
  nodeOf?(key: string): string;
  /** The names of all outages that can concern this key. @default that of its node */
  outagesOf?(key: string): readonly string[];
  /**
   * True if a grant that came as a message must be confirmed by a renewal before a call gets it: the message does not
   * say whether the grant is as safe as an answer would be. @default false
   */
  readonly mustConfirmMessages?: boolean;
  /** For operators: who holds what. It is never needed to hold a lock. */
  readonly inspector: LockInspector;
  /** How long a command may take before its reply is `unknown`. */
  readonly commandTimeoutMs: number;
  /**
   * Opens the inbox and proves that messages arrive.
   * @throws LockConfigError if the store refuses what we need · LockStoreError if it does not answer
   */
  open(listener: StoreListener): Promise<void>;
  /** Asks for a lease, and joins the queue if it is not free. */
  acquire(command: AcquireCommand): Promise<AcquireReply>;
  /**
   * Single tries that succeed together or not at all: `granted` for every command, or for none. If it is `busy`, the
   * holders were asked for the keys, as by a single try, and nothing else has changed. A store of several nodes may
   * answer `busy` for some and `unknown` for others.
   */
  acquireTogether(commands: readonly AcquireCommand[]): Promise<readonly AcquireReply[]>;
  /** Looks again whether it is a waiter's turn. */
  recheck(command: RecheckCommand): Promise<RecheckReply>;
  /** One reply for each command, in the same order. None of them waits for another one that is not known yet. */
  renew(commands: readonly RenewCommand[]): readonly Promise<RenewReply>[];
  /** Gives a lease up; the next waiter gets it. */
  release(command: ReleaseCommand): Promise<ReleaseReply>;
  /** Gives a lease up and joins the queue again. */
  requeue(command: RequeueCommand): Promise<RequeueReply>;
  /** Ends a wait with a last try. */
  leave(command: LeaveCommand): Promise<LeaveReply>;
  /**
   * Takes back what attempts may have left. One reply for each command, in the same order. None of them waits for
   * another one that is not known yet.
   */
  takeBack(commands: readonly TakeBackCommand[]): readonly Promise<TakeBackReply>[];
  /**
   * Stops listening; closes what `open` opened.
   * @param limitMs how long it may wait for commands that are on their way. @default the time limit of a command
   */
  close(limitMs?: number): Promise<void>;
}
