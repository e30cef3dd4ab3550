import { Logger } from '@nestjs/common';
import type { LockEvent } from '../../core/lock-events.js';
import { LOG_CONTEXT } from '../../core/log-context.js';

/**
 * Writes to the application's log what no caller is told. While Redis is away, which is said once, there is no further
 * line for each lock that cannot be renewed or released because of that.
 */
export class LockLog {
  readonly #logger = new Logger(LOG_CONTEXT);
  /** Redis is away, and that was said. */
  #isAway = false;

  report(event: LockEvent): void {
    switch (event.type) {
      case 'lost':
        this.#logger.error(
          `${event.error.message}. Its signal has aborted; the work may overlap with another holder's`,
        );
        return;
      case 'renewal-unknown': {
        if (this.#isAway) return;
        const { key, remainingMs, cause } = event;
        this.#logger.warn(
          `Lock '${key}' could not be renewed, trying again for ${Math.round(remainingMs)} ms: ${cause.message}`,
        );
        return;
      }
      case 'release-unknown':
        if (this.#isAway) return;
        this.#logger.warn(
          `Lock '${event.key}' may not have been released, trying again until its lease ends: ${event.cause.message}`,
        );
        return;
      case 'outlived':
        this.#logger.warn(
          `Lock '${event.key}' is kept although its work has ended: calls inside of it, which joined its hold, were not awaited`,
        );
        return;
      case 'commit-unknown':
        this.#logger.error(
          `Whether the transaction under lock '${event.key}' was committed is not known: its COMMIT was not answered. The lock is not released; its lease ends on its own within ${Math.ceil(event.remainingMs)} ms`,
        );
        return;
      case 'unguarded-clients':
        this.#logger.warn(
          `Nothing is known to listen to the clients of connection '${event.connection}': when a time-out of the database ends a transaction there (transactionTimeouts, which come with the fence), node-postgres emits 'error' and the process ends. Write lockAware(adapter, { pool }) with the pool of pg that you made, or { pool: false } if there is none`,
        );
        return;
      case 'unfenced-statement':
        this.#logger.warn(
          `A statement under lock '${event.key}' is sent outside of a transaction on connection '${event.connection}', where the fence cannot refuse it if the lock was lost; write inside a transaction, or say that it needs no fence: unfenced(() => …) of nestjs-locked/fence. This is said once`,
        );
        return;
      case 'store-lost':
        this.#isAway = true;
        this.#logger.error(
          `Redis is lost: ${event.cause.message}. Locks that are held are kept while their leases last`,
        );
        return;
      case 'store-back':
        this.#isAway = false;
        this.#logger.log(`Redis is back after ${Math.round(event.awayMs)} ms`);
        return;
      case 'eviction':
        this.#logger.warn(
          `Redis evicts keys when its memory is full (maxmemory-policy ${event.policy}), locks as well as others; set it to noeviction`,
        );
        return;
      default:
        return event satisfies never;
    }
  }
}
