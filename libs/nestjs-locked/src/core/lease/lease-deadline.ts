import { driftMarginMs } from '../store/lease-timing.js';
import type { LeaseGrant } from './lease-grant.js';

/**
 * Until when a lease is certainly ours, on this process's monotonic clock.
 *
 * It counts from the *sending* of the command that introduced the token, or of the last renewal that was answered,
 * because the store began to count later than that; a margin covers clocks that drift. When the machine may have slept,
 * our clock stood still while the store's went on: what it slept is taken off until a renewal sent later is answered.
 */
export class LeaseDeadline {
  #at: number;
  /** For how long the store last promised the lease in answer to a command, in milliseconds. */
  #promisedMs: number;
  /** When the machine may have slept. Nothing is handed out before a renewal that was sent later is answered. */
  #suspectSince: number | undefined;
  #sleptMs = 0;

  constructor({ introducedAt, lengthMs, cameByMessage }: LeaseGrant) {
    this.#at = introducedAt + lengthMs - driftMarginMs(lengthMs);
    this.#promisedMs = cameByMessage ? 0 : lengthMs;
  }

  get at(): number {
    return this.#at;
  }

  /** The same, if the machine has slept for as long as it may have. */
  get atWorst(): number {
    return this.#at - this.#sleptMs;
  }

  /** The machine may have slept since the store last confirmed the lease. */
  get isSuspect(): boolean {
    return this.#suspectSince !== undefined;
  }

  /** A renewal for this long, sent at `sentAt`, was answered. It never brings the deadline forward. */
  renewed(sentAt: number, leaseMs: number): void {
    this.#at = Math.max(this.#at, sentAt + leaseMs - driftMarginMs(leaseMs));
    this.#promisedMs = leaseMs;
    if (sentAt < (this.#suspectSince ?? -Infinity)) return;
    this.#suspectSince = undefined;
    this.#sleptMs = 0;
  }

  /** The work of a fixed lease begins at `now`, and the lease lasts no longer than its length from then on. */
  fix(now: number, leaseMs: number): void {
    this.#at = Math.min(this.#at, now + leaseMs - driftMarginMs(leaseMs));
  }

  /** The machine may have slept for this long. */
  suspect(now: number, sleptMs: number): void {
    this.#suspectSince = now;
    this.#sleptMs += sleptMs;
  }

  /**
   * Whether a call may begin at `now` without asking the store first.
   * @param share of `leaseMs` that must be left
   */
  isEnoughFor(leaseMs: number, share: number, now: number): boolean {
    const leftMs = this.atWorst - now;
    return !this.isSuspect && leftMs > 0 && leftMs >= leaseMs * share;
  }

  /** Whether a fixed lease may begin at `now` with its whole length; what the store took to answer does not count. */
  isWholeFor(leaseMs: number, now: number): boolean {
    return this.#promisedMs >= leaseMs || this.atWorst - now >= leaseMs - driftMarginMs(leaseMs);
  }
}
