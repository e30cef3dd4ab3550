/** What the server tells the page, as JSON: null stands for what is unknown. The page imports these types. */
import type { LockState } from '../core/lock-info.js';
import type { HeldMode } from '../core/lock-mode.js';

/** May the person at the page only look, or release locks as well? */
export type DashboardRole = 'read' | 'admin';

/** The first message of a stream of events: `hello`. */
export interface HelloMessage {
  readonly role: DashboardRole;
  /** The process that answers. */
  readonly host: string;
  readonly pid: number;
  /** The name of the lock module. */
  readonly service: string | null;
  /** Its clock, in milliseconds since 1970. */
  readonly at: number;
}

/** A lock in the list. */
export interface ShownLock {
  readonly key: string;
  readonly state: LockState;
  readonly mode: HeldMode | null;
  readonly leaseId: string;
  /** The first of several readers. */
  readonly holder: ShownHolder | null;
  /** How many leases have it: several, if they are those of readers. */
  readonly leases: number;
  /** Milliseconds since 1970. */
  readonly since: number | null;
  /** null: it never expires. */
  readonly remainingMs: number | null;
  /** null: only the holder's process knows it. */
  readonly fencingToken: number | null;
  readonly waiters: number;
  readonly oldestWaitMs: number;
}

export interface ShownHolder {
  readonly host: string | null;
  readonly pid: number | null;
  readonly processId: string;
  readonly label: string | null;
}

/** A lock with its queue: the answer to `lock?key=…`, null if nobody holds it. */
export interface ShownQueue {
  readonly lock: ShownLock;
  /** All that hold it, of which there may be more. */
  readonly holders: readonly ShownHolder[];
  readonly queue: readonly (ShownHolder & { readonly waitedMs: number })[];
}

/** The message `look`, about all processes. */
export interface LookMessage {
  /** When it was, in milliseconds since 1970. */
  readonly at: number;
  /** How long it took. */
  readonly tookMs: number;
  /** Why there are no numbers: Redis does not answer, for instance. */
  readonly problem: string | null;
  readonly totals: Totals | null;
  /** The keys that match the filter, of which the first are listed. */
  readonly matching: number;
  readonly locks: readonly ShownLock[];
  readonly waits: readonly ShownWait[];
  readonly history: ShownHistory;
}

export interface Totals {
  readonly held: number;
  readonly waiting: number;
  readonly oldestWaitMs: number;
  /** There are more keys than were looked at. */
  readonly isPartial: boolean;
}

/** A call that holds keys and waits for another one. */
export interface ShownWait {
  readonly call: ShownHolder;
  readonly key: string;
  readonly holds: readonly string[];
  readonly waitedMs: number;
  /** The calls in the same list that hold the key, by their positions. */
  readonly heldBy: readonly number[];
  /** It waits for itself, through others. */
  readonly isInRing: boolean;
}

/**
 * The last fifteen minutes in slots, the oldest first: the greatest of each number within a slot, and the least margin.
 * null: unknown.
 */
export interface ShownHistory {
  readonly slotMs: number;
  readonly held: readonly (number | null)[];
  readonly waiting: readonly (number | null)[];
  readonly oldestWaitMs: readonly (number | null)[];
  /** Of this process. */
  readonly losses: readonly (number | null)[];
  /** Of this process: how long leases would still have lasted when they were renewed. */
  readonly leastMarginMs: readonly (number | null)[];
}

/** The message `log`: what operators did here, the latest first. */
export type LogMessage = readonly LogEntry[];

export interface LogEntry {
  readonly at: number;
  readonly operator: string | null;
  readonly key: string;
  readonly result: 'released' | 'refused' | 'unknown';
}

/** The body of a request to release a lock. */
export interface ReleaseRequest {
  readonly key: string;
  /** The key, typed once more. */
  readonly confirmation: string;
  /** That of the lease that the operator saw. */
  readonly leaseId: string;
  /** That of the hold that the operator saw, if it was known. */
  readonly fencingToken: number | null;
}

/** The answer to it, and to every request that fails. */
export interface Answer {
  readonly message: string;
}
