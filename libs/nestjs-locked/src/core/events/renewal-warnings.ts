import type { LockEvent } from '../lock-events.js';
import type { RenewalWarning } from '../lock-health.js';
import type { Clock } from '../time/clock.js';

/** How long a warning is shown. */
const KEPT_MS = 60_000;

/**
 * Remembers renewals that were late or not answered, for health checks. Part of each lock service, because a subscriber
 * of the channel would miss what came before it, and cannot tell apart two services of one name in one process.
 */
export class RenewalWarnings {
  readonly #clock: Clock;
  readonly #latest = new Map<RenewalWarning['type'], { at: number; event: RenewalWarning }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Called with every event of the service. */
  note(event: LockEvent): void {
    if (event.type !== 'renewed-late' && event.type !== 'renewal-unknown') return;
    this.#latest.set(event.type, { at: this.#clock.now(), event });
  }

  /** The latest of each type within the last minute. */
  recent(): RenewalWarning[] {
    const since = this.#clock.now() - KEPT_MS;
    return [...this.#latest.values()].flatMap(({ at, event }) => (at > since ? [event] : []));
  }
}
