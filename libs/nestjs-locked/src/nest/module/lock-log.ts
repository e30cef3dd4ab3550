import { Logger } from '@nestjs/common';
import type { LockEvent } from '../../core/lock-events.js';
import { LOG_CONTEXT } from '../../core/log-context.js';

/** What continues under a lock whose work has ended. */
const OUTLIVED_BY = {
  calls: 'calls inside of it, which joined its hold, were not awaited',
  transaction: 'a transaction that was opened under it has not ended',
};

/**
 * Writes to the application's log what no caller is told. While a server is away, which is said once, there is no
 * further line for each of its locks that cannot be renewed or released because of that.
 */
export class LockLog {
  readonly #logger = new Logger(LOG_CONTEXT);
  /** A connection was replaced, and that was said. */
  #isReplaced = false;

  report(event: LockEvent): void {
    switch (event.type) {
      case 'lost':
        this.#logger.error(
          `${event.error.message}. Its signal has aborted; the work may overlap with another holder's`,
        );
        return;
      case 'renewal-unknown': {
        if (event.isAway) return;
        const { key, remainingMs, cause } = event;
        this.#logger.warn(
          `Lock '${key}' could not be renewed, trying again for ${Math.round(remainingMs)} ms: ${cause.message}`,
        );
        return;
      }
      case 'release-unknown':
        return this.#notReleased(event);
      case 'outlived':
        this.#logger.warn(
          `Lock '${event.key}' is kept although its work has ended: ${OUTLIVED_BY[event.by]}`,
        );
        return;
      case 'commit-unknown':
        this.#logger.error(
          `Whether the transaction under lock '${event.key}' was committed is not known: its COMMIT was not answered. The lock is not released; its lease ends on its own within ${Math.ceil(event.remainingMs)} ms`,
        );
        return;
      case 'unguarded-clients':
        this.#logger.warn(
          `Nothing is known to listen to the clients of connection '${event.connection}': when a time-out of the database ends a transaction there (transactionTimeouts, which come with the fence), node-postgres emits 'error' and the process ends. Write lockAwareAdapter(adapter, { pool }) with the pool of pg that you made, or { pool: false } if there is none`,
        );
        return;
      case 'unfenced-statement':
        this.#logger.warn(
          `A statement under lock '${event.key}' is sent outside of a transaction on connection '${event.connection}', where the fence cannot refuse it if the lock was lost; write inside a transaction, or say that it needs no fence: unfenced(() => …) of nestjs-locked/transactions. This is said once`,
        );
        return;
      case 'unfenced-lock':
        this.#logger.warn(
          `No transaction was opened under lock '${event.key}', but one on connection '${event.connection}' began and was committed meanwhile that knew of no lock. If that was the work of the lock, its async context was lost (a batch, a queue, an emitter), and neither lock nor fence guarded it: bind it with AsyncResource.bind, or lock where the transaction is opened. If the lock is for something else, nothing is wrong. This is said once`,
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
      case 'inbox-lost':
        this.#logger.error(
          `Messages from Redis do not arrive: ${event.cause.message}. Calls that wait look for themselves meanwhile, so locks change hands more slowly`,
        );
        return;
      case 'inbox-back':
        this.#logger.log(`Messages from Redis arrive again after ${Math.round(event.awayMs)} ms`);
        return;
      case 'rights-lost':
        this.#logger.error(
          `Redis refuses what the locks need: ${event.cause.message}. Until then, locks change hands slowly, or cannot be taken`,
        );
        return;
      case 'rights-back':
        this.#logger.log(
          `Redis allows again what the locks need, after ${Math.round(event.awayMs)} ms`,
        );
        return;
      case 'connection-replaced':
        return this.#replaced(event.cause.message);
      case 'eviction':
        this.#logger.warn(
          `Redis evicts keys when its memory is full (maxmemory-policy ${event.policy}), locks as well as others; set it to noeviction`,
        );
        return;
      default:
        return event satisfies never;
    }
  }

  /** That others may get a key too early is said for each key, also while Redis is away. */
  #notReleased({
    key,
    cause,
    keepMs,
    isAway,
  }: Extract<LockEvent, { type: 'release-unknown' }>): void {
    if (keepMs > 0) {
      this.#logger.warn(
        `Lock '${key}' may become free before its holdAtLeastMs is over, trying for ${Math.round(keepMs)} ms to keep it: ${cause.message}`,
      );
    } else if (!isAway) {
      this.#logger.warn(
        `Lock '${key}' may not have been released; it ends with its lease at the latest: ${cause.message}`,
      );
    }
  }

  /** What forgets idle connections does so again and again, which is worth one warning. */
  #replaced(reason: string): void {
    const message = `${reason}; it was replaced, and works. Something between this process and Redis seems to forget idle connections: let it keep them for longer than the locks check them, which is every five seconds or a third of leaseMs`;
    if (this.#isReplaced) this.#logger.debug(message);
    else this.#logger.warn(message);
    this.#isReplaced = true;
  }
}
