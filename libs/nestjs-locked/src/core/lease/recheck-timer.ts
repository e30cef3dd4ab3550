import { safetyIntervalMs } from '../store/lease-timing.js';
import type { Queued } from '../store/lock-store.js';
import type { EngineParts } from './engine-parts.js';

/** The shortest interval between two re-checks, however many messages arrive. */
const SHORTEST_INTERVAL_MS = 25;

/** The interval between re-checks while no message can arrive. */
const INBOX_DOWN_INTERVAL_MS = 250;

/** A foreign holder does not announce its release: a waiter re-checks soon at first, then less and less often. */
const FOREIGN_FIRST_MS = 50;
const FOREIGN_SLOWEST_MS = 500;

/** When a waiter re-checks. Normally a grant comes first; this covers lost messages, dead holders and foreign ones. */
export class RecheckTimer {
  readonly #parts: EngineParts;
  readonly #key: string;
  #dueAt = Infinity;
  #lastSentAt = -Infinity;
  #foreignMs = FOREIGN_FIRST_MS;
  /** The latest moment to re-check, from a notice that overtook its reply. */
  #notLaterThan = Infinity;

  constructor(parts: EngineParts, key: string) {
    this.#parts = parts;
    this.#key = key;
  }

  get dueAt(): number {
    return this.#dueAt;
  }

  queued({ remainingMs, foreign }: Queued): void {
    const { clock, store, options } = this.#parts;
    let intervalMs = Math.min(remainingMs, safetyIntervalMs(options.leaseMs));
    if (!store.listensFor(this.#key)) intervalMs = Math.min(intervalMs, INBOX_DOWN_INTERVAL_MS);
    if (foreign) {
      intervalMs = Math.min(intervalMs, this.#foreignMs);
      this.#foreignMs = Math.min(this.#foreignMs * 2, FOREIGN_SLOWEST_MS);
    } else {
      this.#foreignMs = FOREIGN_FIRST_MS;
    }
    this.#dueAt = Infinity;
    this.#at(Math.min(clock.now() + intervalMs, this.#notLaterThan));
    this.#notLaterThan = Infinity;
  }

  /** Called when the re-check was sent; its reply sets the timer again. */
  sent(): void {
    this.#lastSentAt = this.#parts.clock.now();
    this.#dueAt = Infinity;
  }

  /** Called when the re-check could not be sent. */
  failed(): void {
    this.#dueAt = Infinity;
    this.#at(Math.min(this.#parts.clock.now() + INBOX_DOWN_INTERVAL_MS, this.#notLaterThan));
    this.#notLaterThan = Infinity;
  }

  /** Called when the lease ahead of this waiter ends after `ms` unless confirmed. */
  notLaterThan(ms: number): void {
    const at = this.#parts.clock.now() + ms;
    if (this.#dueAt === Infinity) this.#notLaterThan = Math.min(this.#notLaterThan, at);
    else this.#at(at);
  }

  /** Re-checks at once, even if a re-check is in flight, which may have come too early. */
  soon(): void {
    this.notLaterThan(0);
  }

  #at(instant: number): void {
    const jitter = 1 + this.#parts.jitter(20);
    const at = Math.max(instant + jitter, this.#lastSentAt + SHORTEST_INTERVAL_MS);
    this.#dueAt = Math.min(this.#dueAt, at);
  }
}
