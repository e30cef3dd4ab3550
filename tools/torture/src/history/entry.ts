/**
 * What a history consists of: one line for everything that a process saw or did. Times are milliseconds of the
 * machine's monotonic clock, which is the same in all processes.
 */
export type Entry =
  | Asked
  | Held
  | Valid
  | Ensured
  | Lost
  | Ended
  | Released
  | Refused
  | Aborted
  | Inspected
  | Wrong
  | Stalled
  | Killed
  | Exited
  | Closing
  | Closed
  | Foreign
  | Fault;

interface At {
  readonly at: number;
}

interface OfCall extends At {
  readonly call: string;
}

/** A call asked for its keys. What it asked for is recorded, so that the checker knows what to expect. */
export interface Asked extends OfCall {
  readonly kind: 'asked';
  /** The kind of call: a name from the repertoire. */
  readonly what: string;
  readonly process: string;
  /** The lock service. A process has several, one after the other and side by side. */
  readonly service: string;
  readonly keys: readonly string[];
  /** The call in whose async context, and under whose hold, this one was made. */
  readonly parent?: string;
  readonly waitMs: number;
  readonly leaseMs: number;
  readonly maxHoldMs: number;
  readonly renew: boolean;
  readonly holdAtLeastMs: number;
  readonly lingerMs: number;
}

/** The call was told that it holds its keys. */
export interface Held extends OfCall {
  readonly kind: 'held';
  /** The fencing token of each key. */
  readonly tokens: Readonly<Record<string, number>>;
  readonly remainingMs: number;
}

/** The hold was found to be valid for longer than was known before. */
export interface Valid extends OfCall {
  readonly kind: 'valid';
  readonly until: number;
}

/** `ensureRemaining` was called, so from here on the lease may be longer than was asked for. */
export interface Ensured extends OfCall {
  readonly kind: 'ensured';
  readonly ms: number;
}

/** The hold's signal aborted. */
export interface Lost extends OfCall {
  readonly kind: 'lost';
  readonly key: string;
  readonly reason: string;
}

/** The work under the hold is over, but the release has not been asked for yet. */
export interface Ended extends OfCall {
  readonly kind: 'ended';
}

/** The release was answered. */
export interface Released extends OfCall {
  readonly kind: 'released';
  /** `unknown` means that Redis did not answer, and `unsaid` that `withLock` does not tell. */
  readonly answer: boolean | 'unknown' | 'unsaid';
}

/** The call ended without its keys. */
export interface Refused extends OfCall {
  readonly kind: 'refused';
  readonly code: string;
  readonly message: string;
}

/** The call's own signal was aborted. */
export interface Aborted extends OfCall {
  readonly kind: 'aborted';
}

/** From `since` until `at`, a holder asked who holds one of its keys. */
export interface Inspected extends OfCall {
  readonly kind: 'inspected';
  readonly since: number;
  readonly key: string;
  readonly found: 'this process' | 'another' | 'nobody';
}

/** Something that must never happen, whatever else does, and that was noticed at once. */
export interface Wrong extends At {
  readonly kind: 'wrong';
  readonly process: string;
  readonly what: string;
}

/** A process, perhaps the one that watches and proxies, did nothing from `since` until `at`. */
export interface Stalled extends At {
  readonly kind: 'stalled';
  readonly process: string;
  readonly since: number;
}

/** A process was killed: all its calls ended here. */
export interface Killed extends At {
  readonly kind: 'killed';
  readonly process: string;
}

/** A process ended without being killed. */
export interface Exited extends At {
  readonly kind: 'exited';
  readonly process: string;
  readonly code: number | null;
  /** Whether it had closed everything before. */
  readonly wasClosed: boolean;
}

/** An application began to close. Its work has `shutdownMs` to finish. */
export interface Closing extends At {
  readonly kind: 'closing';
  readonly process: string;
  readonly services: readonly string[];
  readonly shutdownMs: number;
}

/** The application is closed. */
export interface Closed extends At {
  readonly kind: 'closed';
  readonly process: string;
  readonly services: readonly string[];
}

/** A client of another kind had the key from `at` until `until`. */
export interface Foreign extends OfCall {
  readonly kind: 'foreign';
  readonly key: string;
  readonly until: number;
  readonly leaseMs: number;
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

/** What was done to Redis, to the connections or to a key, from `at` until `until`. */
export interface Fault extends At {
  readonly kind: 'fault';
  readonly name: string;
  readonly until: number;
  /**
   * What may be delayed by it or end in an error: nothing, everything, all that concerns the server of some keys, the
   * calls for a key whose slot is moved (its lease is renewed all the same), or the waiters for one key.
   */
  readonly disturbs:
    | 'nothing'
    | 'all'
    | { readonly serverOf: readonly string[] }
    | { readonly slotOf: string }
    | { readonly key: string };
  /**
   * Whose leases may be gone from Redis although their holders cannot know it yet: everybody's, those of one key, or
   * those that a replica did not know when it became master, or those of one process. This concerns only leases of that
   * time.
   */
  readonly forgets?:
    | 'all'
    | { readonly key: string }
    | { readonly unknownTo: Promoted }
    /** Those of one process, whose clock stood still while Redis' clock went on. */
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
  /** Whose messages do not arrive, although commands are carried out: all, or those from the server of some keys. */
  readonly silences?: 'all' | { readonly serverOf: readonly string[] };
  /** How long its effects may last after `until`. @default 3,500 ms */
  readonly healingMs?: number;
}
