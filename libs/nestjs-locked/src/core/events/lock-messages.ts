import type { LockLostReason } from '../lock.errors.js';
import type { LockEvent } from '../lock-events.js';

/**
 * How a call got its lock. With several keys, the one that took longest counts.
 *
 * - `free`: nobody had it
 * - `local`: another call of this process had it, or has left it behind (`lingerMs`)
 * - `handed-over`: another process had it
 * - `joined`: the call runs inside one that has it already, or in a transaction that keeps it
 */
export type AcquiredVia = 'free' | 'local' | 'handed-over' | 'joined';

/** What every message about a call says. */
interface OfCall {
  /** The name of the lock module; undefined for the one without a name. */
  readonly service: string | undefined;
  /** In the order in which they are taken. */
  readonly keys: readonly string[];
  /**
   * The key of `@Locked` as it was written, `stock:<id>`, which has few values. Keys from elsewhere are grouped by
   * their text before the first colon, `stock:*`; one without a colon is `*`.
   */
  readonly template: string;
  /** The `label` of the call or, without one, its method: `StockService.take`. */
  readonly label: string | undefined;
}

/**
 * A message of the tracing channel `nestjs-locked:acquire`: the same object at every step, so that subscribers can keep
 * something by it. `start` comes before the lock is requested, `asyncEnd` when it is held or refused; `error` before
 * that if it is refused.
 */
export interface LockAcquireMessage extends OfCall {
  /** The `waitMs` of the call. */
  readonly waitMs: number;
  /** Set at the end: how long it took, in milliseconds. */
  readonly waitedMs?: number;
  /** Set at the end, if the call has the lock. */
  readonly via?: AcquiredVia;
  /**
   * Set at the end, if the call does not have the lock: a LockError. With neither this nor `via`, the transaction
   * around the call is rolled back, and begins again with the lock (`insideTransaction: 'restart'`).
   */
  readonly error?: unknown;
}

/**
 * A message of the tracing channel `nestjs-locked:hold`: the same object at every step. `start` comes when the lock is
 * held, and a store bound to it (`bindStore`) is that of the work; `asyncEnd` when the lock was released, which Redis
 * has answered by then. A call that joins has no message, nor has a lock that only a transaction keeps.
 */
export interface LockHoldMessage extends OfCall {
  /** That of the first key. */
  readonly fencingToken: number;
  /** How it was acquired. */
  readonly via: AcquiredVia;
  /** Set at the end: how long it was held, in milliseconds. */
  readonly heldMs?: number;
  /**
   * Set at the end. `unknown`: the release or a COMMIT under the lock was not answered, so it ends with its lease.
   */
  readonly end?: 'released' | 'lost' | 'unknown';
  /** Set at the end, if it was lost before. */
  readonly lost?: LockLostReason;
}

/**
 * What a subscriber of `start` may set on the message of a hold, to run the work in a context that has no
 * `AsyncLocalStorage` to bind, as that of OpenTelemetry. Of several, the first is the outermost.
 */
export const AROUND_WORK = Symbol.for('nestjs-locked/AroundWork');

/** A message with such a function. */
export interface WithAroundWork {
  [AROUND_WORK]?: <T>(work: () => T) => T;
}

/**
 * What a subscriber of `start` may set on the message of a call, to be told the trace context of a hold in another
 * process for which the call waits. It is asked for after a while, if that process says it.
 */
export const HOLDER_FOUND = Symbol.for('nestjs-locked/HolderFound');

/** A message with such a function. */
export interface WithHolderFound {
  [HOLDER_FOUND]?: (traceParent: string) => void;
}

/**
 * What a subscriber of `start` may set on the message of a hold: its trace context as W3C's `traceparent`, for those
 * who wait for it in other processes.
 */
export const TRACE_PARENT = Symbol.for('nestjs-locked/TraceParent');

/** A message with it. */
export interface WithTraceParent {
  [TRACE_PARENT]?: string;
}

/** A message while it is written. */
export type Unfinished<Message> = { -readonly [Name in keyof Message]: Message[Name] };

/** A message of the channel `nestjs-locked:event`. */
export interface LockEventMessage {
  /** The name of the lock module; undefined for the one without a name. */
  readonly service: string | undefined;
  /** What has happened. */
  readonly event: LockEvent;
  /** Of `queued`: the message of the call that waits, if somebody was subscribed to `nestjs-locked:acquire`. */
  readonly request?: LockAcquireMessage | undefined;
}
