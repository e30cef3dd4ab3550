import type { EntryOf } from './history-file.js';

/**
 * What a history consists of: one line for everything that a process saw or did. Times are milliseconds of the
 * machine's monotonic clock, which is the same in all processes.
 */
export type Entry<Kind extends keyof EntryKinds = keyof EntryKinds> = EntryOf<EntryKinds, Kind>;

/** What each kind of entry tells, apart from its time. */
export type EntryKinds = About<{ readonly call: string }, CallEvents> &
  About<{ readonly process: string }, ProcessEvents> & { fault: FaultReport };

type About<Subject, Events> = { [Kind in keyof Events]: Subject & Events[Kind] };

/** What happens to a call, in this order. */
export interface CallEvents {
  /** A call asked for its keys. What it asked for is recorded, so that the checker knows what to expect. */
  asked: {
    /** The kind of call: a name from the repertoire. */
    readonly what: string;
    readonly process: string;
    /** The lock service. A process has several, one after the other and side by side. */
    readonly service: string;
    readonly keys: readonly string[];
    /** Those of the keys that it only reads. @default none */
    readonly reads?: readonly string[];
    /** Those of the keys of which it wants permits, and how many there are of each. @default none */
    readonly permits?: Readonly<Record<string, number>>;
    /** How many of them it wants. @default 1 */
    readonly weight?: number;
    /** The call whose lock it adopts. */
    readonly adopts?: string;
    /** The call in whose async context, and under whose hold, this one was made. */
    readonly parent?: string;
    readonly waitMs: number;
    readonly leaseMs: number;
    readonly maxHoldMs: number;
    readonly renew: boolean;
    readonly holdAtLeastMs: number;
    readonly lingerMs: number;
  };
  /** The call was told that it holds its keys, each with a fencing token or, of permits, a slot. */
  held: {
    readonly tokens: Readonly<Record<string, number>>;
    readonly slots?: Readonly<Record<string, number>>;
    readonly remainingMs: number;
  };
  /** The hold was found to be valid for longer than was known before. */
  valid: { readonly until: number };
  /** `ensureRemaining` was called, so from here on the lease may be longer than was asked for. */
  ensured: { readonly ms: number };
  /**
   * The call changed what its keys guard, which is this history: it is outside of Redis, nothing in it is ever changed,
   * and it does not ask who holds what. The call believed that it holds its keys.
   */
  acted: object;
  /** `detach` was called, for so long. */
  detaches: { readonly ms: number };
  /** Its lock was detached: nobody has it from here on, until another call adopts it. */
  detached: object;
  /** The hold's signal aborted. */
  lost: { readonly key: string; readonly reason: string };
  /** The work under the hold is over, but the release has not been asked for yet. */
  ended: object;
  /** The release was answered. `unknown`: Redis did not answer; `unsaid`: `withLock` does not tell. */
  released: { readonly answer: boolean | 'unknown' | 'unsaid' };
  /** The call ended without its keys. */
  refused: { readonly code: string; readonly message: string };
  /** The call's own signal was aborted. */
  aborted: object;
  /** From `since` until `at`, a holder asked who holds one of its keys. */
  inspected: {
    readonly since: number;
    readonly key: string;
    readonly found: 'this process' | 'another' | 'nobody';
  };
  /** A client of another kind had the key from `at` until `until`. */
  foreign: { readonly key: string; readonly until: number; readonly leaseMs: number };
}

/** What happens to a process. */
export interface ProcessEvents {
  /** Something that must never happen, whatever else does, and that was noticed at once. */
  wrong: { readonly what: string };
  /** A process, perhaps the one that watches and proxies, did nothing from `since` until `at`. */
  stalled: { readonly since: number };
  /** A process was killed: all its calls ended here. */
  killed: object;
  /** A process ended without being killed, perhaps before it had closed everything. */
  exited: { readonly code: number | null; readonly wasClosed: boolean };
  /** An application began to close. Its work has `shutdownMs` to finish. */
  closing: { readonly services: readonly string[]; readonly shutdownMs: number };
  /** The application is closed. */
  closed: { readonly services: readonly string[] };
}

/** What a replica knew when it became master. */
export interface Promoted {
  /** Leases that were granted long enough before this had reached it. */
  readonly cutAt: number;
  /** The lease of each of its keys; null if it knew of none. */
  readonly leases: Readonly<Record<string, KnownLease | null>>;
}

export interface KnownLease {
  /** The process that has it. Undefined if it is not one of the workers. */
  readonly process?: string;
  readonly until: number;
}

/** Everybody, or those who want keys of one server. */
export type Concerned = 'all' | { readonly serverOf: readonly string[] };

export type Fault = Entry<'fault'>;

/** What was done to Redis, to the connections or to a key, from `at` until `until`. */
interface FaultReport extends Effects {
  readonly name: string;
  readonly until: number;
}

/** What a fault does, apart from when. */
export interface Effects {
  /**
   * What may be delayed by it or end in an error: nothing, everything, all that concerns the server of some keys, the
   * calls for a key whose slot is moved (its lease is renewed all the same), or the waiters for one key.
   */
  readonly disturbs: 'nothing' | Concerned | { readonly slotOf: string } | { readonly key: string };
  /**
   * Whose leases may be gone from Redis although their holders cannot know it yet: everybody's, those of one key, those
   * that a replica did not know when it became master, or those of one process, whose clock stood still while Redis'
   * clock went on. This concerns only leases of that time.
   */
  readonly forgets?:
    | 'all'
    | { readonly key: string }
    | { readonly unknownTo: Promoted }
    | { readonly process: string };
  /** Leases at least this long can be renewed during the fault. @default none */
  readonly keepsLeasesFromMs?: number;
  /** Leases that were granted after this were not forgotten. @default until */
  readonly forgetsUntil?: number;
  /**
   * How a holder learns of it: after it has connected again, at its next renewal, from a message, or by comparing its
   * clocks after it was suspended.
   */
  readonly notice?: 'reconnect' | 'renewal' | 'message' | 'waking';
  /** Whose messages do not arrive, although commands are carried out. */
  readonly silences?: Concerned;
  /** How long its effects may last after `until`. @default 3,500 ms */
  readonly healingMs?: number;
}

/** The process that runs the proxy. Nobody hears what it does not pass on. */
export const MAIN_PROCESS = 'main';

/** The name of the fault during which answers arrive up to a quarter of a second later. */
export const SLOW_ANSWERS = 'slow answers';

/** The name of the fault that Redis took long to answer, because of another fault or because of the machine. */
export const SLOW_PULSE = 'redis was slow';

/** The name of the fault after which a key stays taken for a moment. */
export const FORCED = 'released by an operator';
