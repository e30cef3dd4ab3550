import { Logger } from '@nestjs/common';
import { ringOf } from '../../core/deadlocks/deadlock-message.js';
import { describedHolder } from '../../core/engine/holder-lookup.js';
import type { LockEvent } from '../../core/lock-events.js';
import { evictionWarning } from '../../core/lock-health.js';
import { lockName } from '../../core/lock-name.js';
import { LOG_CONTEXT } from '../../core/log-context.js';
import { shownValue } from '../../core/runtime/shown-value.js';

/** What keeps a lock after its work has ended. */
const OUTLIVED_BY = {
  calls: 'calls inside it that joined its hold were not awaited',
  transaction: 'a transaction opened under it has not ended',
};

const NOT_BACKED_UP =
  'Long synchronous work, perhaps of the same method, loses locks if it takes longer than leaseMs allows';
const BACKED_UP =
  "Meanwhile the worker thread has renewed it (renewFrom: 'worker'), but nothing else of this process has run. Long synchronous work, perhaps of the same method, keeps every other request waiting";

/**
 * Logs the events that no caller learns of. While a server is away, which is logged once, failed renewals and releases
 * of its locks are not logged.
 */
export class LockLog {
  readonly #logger = new Logger(LOG_CONTEXT);
  /** The warning about a replaced connection has been logged. */
  #isReplaced = false;

  report(event: LockEvent): void {
    switch (event.type) {
      case 'lost':
        this.#logger.error(
          `${event.error.message}. Its signal has aborted; the work may overlap with another holder's`,
        );
        return;
      case 'force-released': {
        const { key, holder } = event;
        const from = holder === undefined ? '' : ` from ${describedHolder(holder)}`;
        this.#logger.warn(
          `Lock '${key}' was taken away${from}: this process called forceRelease. The next caller gets it in a second`,
        );
        return;
      }
      case 'renewal-unknown': {
        if (event.isAway) return;
        const { remainingMs, cause } = event;
        this.#logger.warn(
          `Lock ${lockName(event)} could not be renewed, trying again for ${Math.round(remainingMs)} ms: ${cause.message}`,
        );
        return;
      }
      case 'queued':
      case 'renewed':
      case 'transaction':
        return; // for subscribers; the caller of the transaction has the error
      case 'renewed-late':
        return this.#renewedLate(event);
      case 'release-unknown':
        return this.#notReleased(event);
      case 'outlived':
        this.#logger.warn(
          `Lock ${lockName(event)} is kept although its work has ended: ${OUTLIVED_BY[event.by]}`,
        );
        return;
      case 'opposite-orders':
        return this.#oppositeOrders(event);
      case 'permits-differ':
        this.#logger.warn(
          `A call waits for lock ${lockName(event)} with permits: ${event.permits}, while a holder of it counts ${event.othersPermits}. Each call is judged by its own number, so more than ${Math.min(event.permits, event.othersPermits)} may hold it at once: usual while a deployment changes the number; otherwise give all calls of a key the same. This warning is logged once for '${event.template}'`,
        );
        return;
      case 'deadlock':
        this.#logger.error(
          `The call that waited for lock ${lockName(event)} has ended with LOCK_DEADLOCK, so that others go on: ${ringOf(event.ring)}`,
        );
        return;
      case 'elected':
        this.#logger.log(`This process leads: it has lock ${lockName(event)}`);
        return;
      case 'deposed':
        return this.#deposed(event);
      case 'leader-failed':
        return this.#leaderFailed(event);
      case 'leader-overdue':
        this.#logger.warn(
          `The work of the leader under lock ${lockName(event)} still runs, ${event.sinceMs} ms after its signal has aborted. Until it ends, this process does not campaign again: pass the signal on, and return when it aborts`,
        );
        return;
      case 'campaign-failed':
        this.#logger.warn(
          `Cannot campaign for lock ${lockName(event)}, trying again: ${event.cause.message}`,
        );
        return;
      case 'unread-result':
        this.#logger.warn(
          `The work under lock '${event.key}' returned ${event.result} that is read after the lock has been released; if reading needs the lock, read it inside the work, or use @Locked on a method that returns it. This warning is logged once`,
        );
        return;
      case 'commit-unknown':
        this.#logger.error(
          `It is unknown whether the transaction under lock ${lockName(event)} was committed: its COMMIT was not answered. The lock is not released; its lease expires within ${Math.ceil(event.remainingMs)} ms`,
        );
        return;
      case 'unguarded-clients':
        this.#logger.warn(
          `No 'error' listener is known for the clients of connection '${event.connection}': when a database time-out ends a transaction there (transactionTimeouts, on by default with the fence), node-postgres emits 'error' and the process ends. Pass your pg pool to lockAwareAdapter(adapter, { pool }), or { pool: false } if there is none`,
        );
        return;
      case 'unfenced-statement':
        this.#logger.warn(
          `A statement under lock ${lockName(event)} is sent outside a transaction on connection '${event.connection}', where the fence cannot refuse it if the lock is lost; write inside a transaction, or exempt the statement with unfenced(() => …) of nestjs-locked/transactions. This warning is logged once`,
        );
        return;
      case 'unfenced-lock':
        this.#logger.warn(
          `No transaction was opened under lock ${lockName(event)}, but meanwhile a transaction without a lock was committed on connection '${event.connection}'. If it did the work of this lock, its async context was lost (a batch, a queue, an emitter), and neither lock nor fence guarded it: bind it with AsyncResource.bind, or take the lock where the transaction is opened. If the lock is for something else, nothing is wrong. This warning is logged once`,
        );
        return;
      case 'store-awaited':
        this.#logger.warn(`Waiting for Redis at ${event.address}: ${event.cause.message}`);
        return;
      case 'store-found':
        this.#logger.log(
          `Connected to Redis at ${event.address} after ${Math.round(event.awaitedMs)} ms`,
        );
        return;
      case 'store-lost':
        this.#logger.error(
          `Redis is lost: ${event.cause.message}. Locks that are held are kept while their leases last`,
        );
        return;
      case 'store-back':
        this.#logger.log(`Redis is back after ${Math.round(event.awayMs)} ms`);
        return;
      case 'node-lost':
        this.#logger.warn(
          `A node of the quorum cannot be used, ${event.node}: ${event.cause.message}. Locks go on as long as more than half of the nodes can`,
        );
        return;
      case 'node-back':
        this.#logger.log(
          `Node ${event.node} of the quorum can be used again after ${Math.round(event.awayMs)} ms`,
        );
        return;
      case 'inbox-lost':
        this.#logger.error(
          `Messages from Redis do not arrive: ${event.cause.message}. Waiting calls poll meanwhile, so locks change hands more slowly`,
        );
        return;
      case 'inbox-back':
        this.#logger.log(`Messages from Redis arrive again after ${Math.round(event.awayMs)} ms`);
        return;
      case 'rights-lost':
        this.#logger.error(
          `Redis refuses what the locks need: ${event.cause.message}. Until it allows that again, locks change hands slowly or cannot be taken`,
        );
        return;
      case 'rights-back':
        this.#logger.log(
          `Redis allows what the locks need again, after ${Math.round(event.awayMs)} ms`,
        );
        return;
      case 'connection-replaced':
        return this.#replaced(event.cause.message);
      case 'backup-lost':
        this.#logger.warn(
          `Leases are not renewed while the event loop is blocked (renewFrom: 'worker'): ${event.cause.message}. Until that works again, locks are lost if it is blocked for longer than leaseMs allows`,
        );
        return;
      case 'backup-back':
        this.#logger.log(
          `Leases are renewed again while the event loop is blocked (renewFrom: 'worker'), after ${Math.round(event.awayMs)} ms`,
        );
        return;
      case 'eviction':
        this.#logger.warn(evictionWarning(event.policy));
        return;
      default:
        return event satisfies never;
    }
  }

  #renewedLate(event: Extract<LockEvent, { type: 'renewed-late' }>): void {
    const { lateMs, remainingMs, leases, isBackedUp } = event;
    const others = leases === 1 ? '' : ` (and those of ${leases - 1} more, which have longer)`;
    this.#logger.warn(
      `The lease of lock ${lockName(event)}${others} is renewed ${Math.round(lateMs)} ms late, with ${Math.round(remainingMs)} ms left: the event loop of this process was blocked, or the machine was suspended. ${isBackedUp ? BACKED_UP : NOT_BACKED_UP}: move it to a worker thread, or let the event loop turn in between`,
    );
  }

  #oppositeOrders({ ring }: Extract<LockEvent, { type: 'opposite-orders' }>): void {
    const nestings = ring.map(
      ({ held, heldBy, wanted, wantedBy }) =>
        `${lockName({ key: wanted, label: wantedBy })} is requested under ${lockName({ key: held, label: heldBy })}`,
    );
    this.#logger.warn(
      `Locks are nested in opposite orders: ${nestings.join(', and ')}. Such calls can wait for each other until a waitMs is over: request their keys in one call, or nest them in one order. This warning is logged once`,
    );
  }

  #deposed(event: Extract<LockEvent, { type: 'deposed' }>): void {
    const why =
      event.reason === 'resigned'
        ? ', because its work has returned or resign() was called; to lead on, await in the work what it starts'
        : '';
    this.#logger.log(
      `This process no longer leads: lock ${lockName(event)} (${event.reason})${why}`,
    );
  }

  #leaderFailed(event: Extract<LockEvent, { type: 'leader-failed' }>): void {
    const { error, retryInMs } = event;
    const { message = shownValue(error), stack } = Object(error) as Partial<Error>;
    const next =
      retryInMs === undefined
        ? 'Its campaign has ended'
        : `The lock is released, and this process campaigns again in ${Math.round(retryInMs)} ms`;
    this.#logger.error(
      `The work of the leader under lock ${lockName(event)} has failed: ${message}. ${next}`,
      stack,
    );
  }

  /** Keys that others may get too early are logged one by one, even while Redis is away. */
  #notReleased(event: Extract<LockEvent, { type: 'release-unknown' }>): void {
    const { cause, keepMs, isAway } = event;
    if (keepMs > 0) {
      this.#logger.warn(
        `Lock ${lockName(event)} may become free before its holdAtLeastMs is over, trying for ${Math.round(keepMs)} ms to keep it: ${cause.message}`,
      );
    } else if (!isAway) {
      this.#logger.warn(
        `Lock ${lockName(event)} may not have been released; it ends with its lease at the latest: ${cause.message}`,
      );
    }
  }

  /** Whatever drops idle connections does so repeatedly, so only the first time is a warning. */
  #replaced(reason: string): void {
    const message = `${reason}; it was replaced and works. Something between this process and Redis seems to drop idle connections: let it keep them longer than the interval at which the locks check them, five seconds or a third of leaseMs`;
    if (this.#isReplaced) this.#logger.debug(message);
    else this.#logger.warn(message);
    this.#isReplaced = true;
  }
}
