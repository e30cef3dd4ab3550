import type { DeposedReason } from './leadership.js';
import type { LockLostError, LockStoreError } from './lock.errors.js';
import type { LockHolder, LockWait } from './lock-info.js';

/** A lock in an event. */
export interface OfLock {
  readonly key: string;
  /** The method or label of the call that has it, or had it last; undefined if it has neither. */
  readonly label: string | undefined;
  /** The template of the key, as in `LockAcquireMessage`. */
  readonly template: string;
}

/** A lock that was requested under another one, for the first time. Both are named by the templates of their keys. */
export interface LockNesting {
  /** `order:<id>` */
  readonly held: string;
  /** The method or label of the call that held it; undefined if it has neither. */
  readonly heldBy: string | undefined;
  /** `stock:<id>` */
  readonly wanted: string;
  /** As `heldBy`, of the call that requested the other one. */
  readonly wantedBy: string | undefined;
}

/** Who has the key for which a call waits: another call of this process, or somebody else. */
export type QueuedFor = 'local' | 'store';

/**
 * What happens besides the results of calls: for the log, and for subscribers of the channel `nestjs-locked:event`.
 * None of these is thrown.
 */
export type LockEvent =
  /** A hold ended before its work did; its signal has aborted. */
  | (OfLock & { readonly type: 'lost'; readonly error: LockLostError })
  /** This process has taken the key away with `forceRelease`. The holder is undefined if none was notified. */
  | {
      readonly type: 'force-released';
      readonly key: string;
      readonly holder: LockHolder | undefined;
    }
  /**
   * A renewal was refused or not answered; it is repeated while the lease lasts. Reported once per series of failures.
   */
  | (OfLock & {
      readonly type: 'renewal-unknown';
      readonly remainingMs: number;
      readonly cause: LockStoreError;
      /** The node of the store that has the key is away, which was reported already. */
      readonly isAway: boolean;
    })
  /**
   * The lease was renewed while a call holds it; without that, it would have lasted for `marginMs`. Only told to
   * subscribers of the channel.
   */
  | (OfLock & { readonly type: 'renewed'; readonly marginMs: number })
  /**
   * Renewals are sent late, because the event loop of this process was blocked or the machine was suspended. Reported
   * once for all leases that are late, with the one that has the least time left.
   */
  | (OfLock & {
      readonly type: 'renewed-late';
      readonly lateMs: number;
      readonly remainingMs: number;
      readonly leases: number;
      /** Whether a worker thread has renewed that lease meanwhile (`renewFrom: 'worker'`). */
      readonly isBackedUp: boolean;
    })
  /**
   * A release was not answered; it is repeated until the lease expires. The key was to stay taken for another `keepMs`;
   * others may get it sooner if the lease is shorter than that.
   */
  | (OfLock & {
      readonly type: 'release-unknown';
      readonly cause: LockStoreError;
      /** 0 if the lease lasts at least that long. */
      readonly keepMs: number;
      /** As with `renewal-unknown`. */
      readonly isAway: boolean;
    })
  /**
   * The work has ended, but calls that joined its hold, or a transaction under it, have not: the lock is kept until
   * they do.
   */
  | (OfLock & { readonly type: 'outlived'; readonly by: 'calls' | 'transaction' })
  /**
   * Calls of this process nest locks in opposite orders, so that two of them can wait for each other. Reported once for
   * each ring, in which each is requested under the one before it, and the first under the last.
   */
  | { readonly type: 'opposite-orders'; readonly ring: readonly LockNesting[] }
  /**
   * Calls waited for each other in a ring, and this process has ended its own wait, the youngest one, for the key. The
   * label is that of the call, the ring as in `LockDeadlockError`.
   */
  | (OfLock & { readonly type: 'deadlock'; readonly ring: readonly LockWait[] })
  /** This process leads from now on (`lead`); its work begins. */
  | (OfLock & { readonly type: 'elected'; readonly fencingToken: number })
  /**
   * This process no longer leads. If its lock was lost, its work may still run; otherwise, it has ended, and the lock
   * is released next.
   */
  | (OfLock & { readonly type: 'deposed'; readonly reason: DeposedReason })
  /**
   * The work of a leader has thrown. Its lock is released, and the process campaigns again after a pause; without one,
   * its campaign has ended.
   */
  | (OfLock & {
      readonly type: 'leader-failed';
      readonly error: unknown;
      readonly retryInMs: number | undefined;
    })
  /**
   * The signal of a leader has aborted a while ago, and its work still runs. Until it ends, this process does not
   * campaign again. Reported once each time.
   */
  | (OfLock & { readonly type: 'leader-overdue'; readonly sinceMs: number })
  /** The lock of a leader could not be requested; the process tries again. Reported once until it leads. */
  | (OfLock & { readonly type: 'campaign-failed'; readonly cause: Error })
  /**
   * A call has to wait for this key: another call of this process has it (`local`), or another process or client does
   * (`store`). The label is that of the call that waits. Told once for each key that a call waits for, and only to
   * subscribers of the channel.
   */
  | (OfLock & { readonly type: 'queued'; readonly for: QueuedFor })
  /**
   * A call waits for a permit, and whoever has one counts another number of them: each call is judged by its own
   * `permits`. So it is while a deployment changes the number; otherwise, some limit is not what its caller believes.
   * Reported once for each template of keys, of a thousand templates at most.
   */
  | (OfLock & {
      readonly type: 'permits-differ';
      /** Of the call that waits, whose label this is. */
      readonly permits: number;
      /** Of a holder. */
      readonly othersPermits: number;
    })
  /** The work returned a stream or an async iterable that is read after the release. Reported once per service. */
  | { readonly type: 'unread-result'; readonly key: string; readonly result: string }
  /**
   * A transaction under the lock was not committed as it was. Only told to subscribers of the channel.
   *
   * - `restarted`: a call inside it requested the lock, so it was rolled back and run again with the lock
   *   (`insideTransaction: 'restart'`)
   * - `fenced`: the database has seen the fencing token of a later holder
   * - `vetoed`: the lock was lost before the COMMIT
   */
  | (OfLock & {
      readonly type: 'transaction';
      readonly outcome: 'restarted' | 'fenced' | 'vetoed';
    })
  /** A transaction's COMMIT was not answered: its lock is not released, and the lease expires. */
  | (OfLock & { readonly type: 'commit-unknown'; readonly remainingMs: number })
  /**
   * A time-out of the database would end the process: no 'error' listener is on a connection's clients. Reported at
   * start.
   */
  | { readonly type: 'unguarded-clients'; readonly connection: string }
  /**
   * A statement that writes, or may write, ran outside a transaction under a lock whose service has a fence for the
   * connection. Reported once per connection.
   */
  | (OfLock & { readonly type: 'unfenced-statement'; readonly connection: string })
  /**
   * Under a lock whose service has a fence, no transaction was opened, but one without a lock was committed meanwhile:
   * it may belong to the lock, if the async context was lost. Reported once per connection.
   */
  | (OfLock & { readonly type: 'unfenced-lock'; readonly connection: string })
  /** The store could not be reached yet, at the start. Reported like `store-lost`. */
  | { readonly type: 'store-awaited'; readonly address: string; readonly cause: LockStoreError }
  /** The store was reached for the first time, after `store-awaited`. */
  | { readonly type: 'store-found'; readonly address: string; readonly awaitedMs: number }
  /** The store cannot be reached any more. Reported once, and again when the reason changes. */
  | { readonly type: 'store-lost'; readonly cause: LockStoreError }
  | { readonly type: 'store-back'; readonly awayMs: number }
  /**
   * One of the nodes of a quorum cannot be used; locks go on with the others, unless `store-lost` says otherwise.
   * Reported like `store-lost`.
   */
  | { readonly type: 'node-lost'; readonly node: string; readonly cause: LockStoreError }
  | { readonly type: 'node-back'; readonly node: string; readonly awayMs: number }
  /** No message reaches this process, although the store can be reached. Reported like `store-lost`. */
  | { readonly type: 'inbox-lost'; readonly cause: LockStoreError }
  | { readonly type: 'inbox-back'; readonly awayMs: number }
  /** The store refuses something that the locks need and that it allowed at the start. Reported like `store-lost`. */
  | { readonly type: 'rights-lost'; readonly cause: LockStoreError }
  | { readonly type: 'rights-back'; readonly awayMs: number }
  /** An idle connection was found dead and replaced in time. No call failed because of it. */
  | { readonly type: 'connection-replaced'; readonly cause: LockStoreError }
  /**
   * With `renewFrom: 'worker'`: the worker thread has ended or has no connection, so that leases end if the event loop
   * is blocked for too long. Reported like `store-lost`.
   */
  | { readonly type: 'backup-lost'; readonly cause: LockStoreError }
  | { readonly type: 'backup-back'; readonly awayMs: number }
  /** The store may drop leases: it is configured to evict keys when its memory is full. */
  | { readonly type: 'eviction'; readonly policy: string };

export type ReportLockEvent = (event: LockEvent) => void;
