import type { LockConfigError, LockStoreError } from '../lock.errors.js';
import type { KeyTerms } from '../lock-mode.js';
import type { HolderAnswer, HolderQuestion } from './holder-question.js';
import type { LockInspector } from './lock-inspector.js';
import type { RenewalBackup } from './renewal-backup.js';

/** The store did not answer in time, or refused: its state is unknown. */
export interface Unknown {
  readonly kind: 'unknown';
  readonly cause: LockStoreError;
  /** A retry will not help: the store is there, but the key does not have the expected form. */
  readonly isLasting?: boolean;
  /** The store is there, but refuses until somebody restores something, such as a right. */
  readonly isRefused?: boolean;
  /** The command was not and will not be executed: it has left nothing to take back. @default false: unknown */
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
  /** Of a permit: the least number that no other permit of the key has. @default 0 */
  readonly slot?: number;
}

/** `token` is in the queue. */
export interface Queued {
  readonly kind: 'queued';
  readonly token: string;
  /** Its position in the queue. A re-check, which introduces a new token, repeats it. */
  readonly position: number;
  /** How long the current lease lasts if nobody renews it; Infinity if it never expires. */
  readonly remainingMs: number;
  /** The holder is another kind of client, which does not announce its release. */
  readonly foreign: boolean;
  /** If several may have the key together: the token of the first in the queue, unless that is this one. */
  readonly head?: string;
  /** If a permit is requested, and a holder counts another number of permits: that number. */
  readonly permits?: number;
}

/** The key is held, or others wait for it; the token was not queued. */
export interface Busy {
  readonly kind: 'busy';
  /** How long the current lease lasts if nobody renews it; Infinity if it never expires. */
  readonly remainingMs: number;
  /** The holder is another kind of client, which does not announce its release. */
  readonly foreign?: boolean;
  /** Of several keys requested together: this one was free, but was not taken because of the others. */
  readonly wasFree?: boolean;
}

/** Requests the lease of a key. */
export interface AcquireCommand {
  readonly key: string;
  /** A new token, introduced by this command. */
  readonly token: string;
  /** How long the lease should last, in milliseconds. */
  readonly leaseMs: number;
  /** Whether to try only once, without joining or overtaking the queue. */
  readonly nowait: boolean;
  /** The position in the queue from an earlier attempt. */
  readonly position?: number;
}
/** The reply to a request for a lease. */
export type AcquireReply = Granted | Queued | Busy | Unknown;

/** Checks whether it is a waiter's turn, with a new token in the old one's position. */
export interface RecheckCommand {
  readonly key: string;
  /** The waiting token. */
  readonly token: string;
  /** The token that takes its position. */
  readonly newToken: string;
  /** How long the lease should last, in milliseconds. */
  readonly leaseMs: number;
  /** The waiter's position in the queue. */
  readonly position: number;
  /** The first in the queue, if it has been the same for so long that it must have stopped. It loses its place. */
  readonly silent?: string;
}
/** The reply to a re-check. */
export type RecheckReply = Granted | Queued | Unknown;

/** Prolongs a lease. */
export interface RenewCommand {
  readonly key: string;
  /** The token that has the lease. */
  readonly token: string;
  /** How long the lease should last from now on, in milliseconds. */
  readonly leaseMs: number;
  /** Highest fencing token used so far; 0 = unknown: those to reserve are above all that anybody has had. */
  readonly used: number;
  /** How many fencing tokens to reserve after that one; 0 = none. */
  readonly reserves: number;
}
/** The lease lasts longer. */
export interface Renewed {
  readonly kind: 'renewed';
  /** Highest fencing token that may be used before the next renewal; 0 if none were requested. */
  readonly blockEnd: number;
  readonly waiters: number;
}
/** The store answered that the lease is not ours. */
export interface Lost {
  readonly kind: 'lost';
}
/** The reply to a renewal. */
export type RenewReply = Renewed | Lost | Unknown;

/** Goes on with a lease that its process has left to whoever has its token. */
export interface AdoptCommand {
  readonly key: string;
  /** The token that has the lease. */
  readonly token: string;
  /** A new token, introduced by this command, which takes its place. */
  readonly newToken: string;
  /** How long the lease should last from now on, in milliseconds; it may become shorter. */
  readonly leaseMs: number;
  /** Highest fencing token used under the old token; the new ones are greater. */
  readonly used: number;
}
/** The reply to an adoption; `lost` if the token does not have the lease, or no longer. */
export type AdoptReply = Granted | Lost | Unknown;

/** Releases a lease. */
export interface ReleaseCommand {
  readonly key: string;
  /** The token that has the lease. */
  readonly token: string;
  /** Highest fencing token used; 0 = unknown, the stored bound stays. */
  readonly used: number;
  /**
   * How long the key stays taken without a holder, counted from the call even if the command is sent later. @default 0:
   * the next waiter gets it
   */
  readonly keepMs?: number;
}
/** The reply to a release. */
export type ReleaseReply = { readonly kind: 'released' } | Lost | Unknown;

/** Releases a lease and requests it again, in one step. */
export interface RequeueCommand extends Omit<ReleaseCommand, 'keepMs'> {
  /** Joins the queue, or gets the lease again at once if nobody is ahead. */
  readonly newToken: string;
  /**
   * How long the requesting call has waited, in milliseconds: its position is ahead of later arrivals.
   * @default 0: the end of the queue
   */
  readonly waitedMs?: number;
  /** How long the new lease should last, in milliseconds. */
  readonly leaseMs: number;
}
/** The reply to both steps. */
export type RequeueReply =
  | ((Granted | Queued) & {
      /** Whether the old token no longer had the lock. */
      readonly wasLost?: boolean;
    })
  | (Unknown & {
      /**
       * Set if the first step was executed, to whether the old token had the lock until then; only the second step is
       * unknown. @default both steps are unknown
       */
      readonly wasReleased?: boolean;
    });

/** Ends a wait with a last try: takes the lease if it is ours or free, and leaves the queue if not. */
export interface LeaveCommand {
  readonly key: string;
  /** The waiting token and, while a re-check is in flight, its replacement. */
  readonly tokens: readonly [string, string?];
  /** How long a lease taken by the last try should last, in milliseconds. */
  readonly leaseMs: number;
}
/** The reply to leaving: the waiter is gone, unless the last try got the lease. */
export type LeaveReply = Granted | { readonly kind: 'left' } | Unknown;

/**
 * Takes back a position in the queue, or the lease if one of the tokens was granted it; the next waiter gets the lease.
 */
export interface TakeBackCommand {
  readonly key: string;
  /** Up to two tokens of this process that are no longer used. */
  readonly tokens: readonly [string, string?];
  /** Highest fencing token used; 0 = unknown, the stored bound stays. @default none: nobody has learned of the lease */
  readonly used?: number;
  /**
   * As with a release, but the key is also kept if its lease has expired and it is free.
   * @default 0: the next waiter gets it
   */
  readonly keepMs?: number;
}
/** Nothing of it is left in the store, or that is unknown. */
export type TakeBackReply = { readonly kind: 'left' } | Unknown;

/** The longest stall of one hour since 1970, in whole milliseconds: 0 if there was none. */
export type ObservedHour = readonly [hour: number, longestMs: number];
export interface SharedStalls {
  readonly kind: 'shared';
  /** What all processes have observed, as far as it is kept. */
  readonly observed: readonly ObservedHour[];
}

/** A message from the store. Every message is a hint: it may be lost, late, or doubled. */
export type InboxMessage =
  | {
      readonly kind: 'grant';
      readonly key: string;
      readonly token: string;
      readonly fence: number;
      readonly blockEnd: number;
      readonly waiters: number;
      /** The short lease set by the granter, within which the grant must be used or confirmed. */
      readonly acceptMs: number;
      /** As of an answer. */
      readonly slot?: number;
    }
  /** Another process wants the key that `token` holds. */
  | { readonly kind: 'wanted'; readonly key: string; readonly token: string }
  /** `token` is the next in the queue; the lease ahead of it lasts `ms` at most unless it is confirmed. */
  | { readonly kind: 'head'; readonly key: string; readonly token: string; readonly ms: number }
  /** An operator has taken the key from `token`; the next waiter gets it in a second. */
  | { readonly kind: 'revoked'; readonly key: string; readonly token: string };

/** A message about a token of this process, or one with which processes find deadlocks. */
export type StoreMessage = InboxMessage | HolderQuestion | HolderAnswer;

/**
 * Receives the events of a store. `node` names the server affected in a store on several servers that fail
 * independently, each with its own keys (`LockStore.nodeOf`). Only `storeLost` and `storeBack` may name another outage
 * (`LockStore.outagesOf`).
 */
export interface StoreListener {
  /** A message in the inbox of this process. */
  message(message: StoreMessage): void;
  /** The inbox was (re)subscribed, or the command connection is ready (again): messages may have been lost. */
  reconnected(node?: string): void;
  /** The inbox is down: no message will arrive until `inboxBack`. */
  inboxLost(node?: string, cause?: LockStoreError): void;
  /** The inbox could not be restored at once, although the store can be reached. */
  inboxFails?(cause: LockStoreError, node?: string): void;
  /** Messages arrive again, or are no longer expected from there. @default `reconnected` means it */
  inboxBack?(node?: string): void;
  /** The store refuses something that the locks need and that it allowed when it was opened. */
  rightsLost?(cause: LockStoreError, node?: string): void;
  /** The store refuses nothing any more, or is no longer needed there. */
  rightsBack?(node?: string): void;
  /** An idle connection was found dead and replaced in time. No call failed because of it. */
  connectionReplaced?(cause: LockStoreError): void;
  /** The store cannot be reached yet, while it is being opened. */
  storeAwaited?(cause: LockStoreError): void;
  /** The store cannot be reached, or has fallen silent. */
  storeLost(cause: LockStoreError, node?: string): void;
  /** The store answers again, or its keys have moved elsewhere. */
  storeBack(node?: string): void;
  /** One of several servers with the same keys cannot be used. The others go on, unless `storeLost` is called too. */
  nodeLost?(cause: LockStoreError, node: string): void;
  /** It can be used again. */
  nodeBack?(node: string): void;
  /** The backup of the renewals does not work now: leases end if this process is blocked for too long. */
  backupLost?(cause: LockStoreError): void;
  /** The backup of the renewals works again. */
  backupBack?(): void;
  /** The store is configured to evict keys, including leases, when its memory is full. */
  mayEvict(policy: string): void;
}

/**
 * Where leases are kept. No method rejects: a failure is the reply `unknown`, given within the store's own time
 * limit. Commands for one key run in the order of the calls. Repeating a command with the same tokens is harmless.
 */
export interface LockStore {
  /**
   * Unique for this process and store, 32 hex digits: the part of a token before the colon, and the name of the inbox.
   */
  readonly processId: string;
  /** Where it is, for messages: `redis://localhost:6379` */
  readonly address?: string;
  /** Whether messages about this key can arrive now. If not, waiters re-check more often. */
  listensFor(key: string): boolean;
  /** The node of the store that has this key now. @default the store's only node, which has no name */
  nodeOf?(key: string): string;
  /** The names of all outages that can affect this key. @default that of its node */
  outagesOf?(key: string): readonly string[];
  /**
   * Whether a grant by message must be confirmed by a renewal before a call gets it, because the message does not say
   * whether the grant is as safe as an answer. @default false
   */
  readonly mustConfirmMessages?: boolean;
  /**
   * What it is, for messages, if a key can be had only by one call at a time, and by the process that has requested it:
   * neither shared nor with permits, and never handed over. @default undefined: it can
   */
  readonly onlyExclusive?: string | undefined;
  /** Whether tokens may have the label of a call. @default true */
  readonly keepsLabels?: boolean;
  /** Why the store cannot keep such a lease. @default it can keep any */
  refusalOf?(terms: KeyTerms, leaseMs: number): LockConfigError | undefined;
  /** Renews leases while the event loop of this process is blocked. @default they end then */
  readonly backup?: RenewalBackup | undefined;
  /** Shows operators who holds what; not needed to hold a lock. */
  readonly inspector: LockInspector;
  /** How long a command may take before its reply is `unknown`. */
  readonly commandTimeoutMs: number;
  /**
   * Opens the inbox and proves that messages arrive.
   * @throws LockConfigError if the store refuses what the locks need · LockStoreError if it does not answer
   */
  open(listener: StoreListener): Promise<void>;
  /** Requests a lease, and joins the queue if the key is not free. */
  acquire(command: AcquireCommand): Promise<AcquireReply>;
  /**
   * Single tries that succeed together or not at all: `granted` for every command, or for none. On `busy`, the holders
   * were asked for the keys, as by a single try, and nothing else has changed. A store with several nodes may hold some
   * of the keys until it finds one taken, and may answer `busy` for some keys and `unknown` for others.
   */
  acquireTogether(commands: readonly AcquireCommand[]): Promise<readonly AcquireReply[]>;
  /** Checks whether it is a waiter's turn. */
  recheck(command: RecheckCommand): Promise<RecheckReply>;
  /** One reply for each command, in the same order; none waits for a pending one. */
  renew(commands: readonly RenewCommand[]): readonly Promise<RenewReply>[];
  /** Gives a lease to another token: only once, because the old one is then no longer in the store. */
  adopt(command: AdoptCommand): Promise<AdoptReply>;
  /** Releases a lease; the next waiter gets it. */
  release(command: ReleaseCommand): Promise<ReleaseReply>;
  /** Releases a lease and joins the queue again. */
  requeue(command: RequeueCommand): Promise<RequeueReply>;
  /** Ends a wait with a last try. */
  leave(command: LeaveCommand): Promise<LeaveReply>;
  /**
   * Takes back what attempts may have left. One reply for each command, in the same order; none waits for a pending
   * one.
   */
  takeBack(commands: readonly TakeBackCommand[]): readonly Promise<TakeBackReply>[];
  /**
   * Adds the stalls that this process has observed to those of all others. Only those of the last week are kept, by the
   * clock of the store.
   * @default nothing is shared
   */
  shareStalls?(observed: readonly ObservedHour[]): Promise<SharedStalls | Unknown>;
  /**
   * Stops listening; closes what `open` opened.
   * @param limitMs how long it may wait for commands in flight. @default the time limit of a command
   */
  close(limitMs?: number): Promise<void>;
}
