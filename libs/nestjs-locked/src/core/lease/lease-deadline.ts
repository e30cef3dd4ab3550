import { driftMarginMs } from '../store/lease-timing.js';
import type { Clock } from '../time/clock.js';
import type { ClockStep } from '../time/suspend-detector.js';
import type { LeaseGrant } from './lease-grant.js';

/** A lease is suspect after a sleep that may have been longer than this, or than a tenth of the lease. */
const LONG_SLEEP_MS = 1_000;

/**
 * Until when a lease is certainly ours, on this process's monotonic clock.
 *
 * It counts from the *sending* of the command that introduced the token, or of the last answered renewal, because the
 * store began to count later; a margin covers clock drift. When the machine may have slept, our clock stopped while the
 * store's kept running: the possible sleep is deducted until a renewal sent later is answered.
 */
export class LeaseDeadline {
  readonly #clock: Clock;
  #at: number;
  #askedUntil: number;
  #lengthMs: number;
  /** How long the store promised to keep the lease in its last answer, in milliseconds. */
  #promisedMs: number;
  /** The possible sleeps since the last answered command was sent. */
  #steps: readonly ClockStep[];
  readonly #onCertain: (() => void)[] = [];

  /** @param steps those detected since the token was introduced */
  constructor(
    clock: Clock,
    { introducedAt, lengthMs, cameBy }: LeaseGrant,
    steps: readonly ClockStep[],
  ) {
    this.#clock = clock;
    this.#at = introducedAt + lengthMs - driftMarginMs(lengthMs);
    this.#askedUntil = introducedAt + lengthMs;
    this.#lengthMs = lengthMs;
    this.#promisedMs = cameBy === 'answer' ? lengthMs : 0;
    this.#steps = steps;
  }

  get at(): number {
    return this.#at;
  }

  /** The deadline if the machine has slept as long as possible. */
  get atWorst(): number {
    return this.#steps.length === 0 ? this.#at : this.#at - sum(this.#steps);
  }

  /** How long the lease lasts if the machine has not slept, in milliseconds. */
  leftMs(): number {
    return Math.max(0, this.#at - this.#clock.now());
  }

  /** How long it is certainly ours, in milliseconds. */
  certainMs(): number {
    return Math.max(0, this.atWorst - this.#clock.now());
  }

  /** The latest moment at which it ends in the store, if a renewal for this long is executed now. */
  latestIfRenewed(leaseMs: number): number {
    return Math.max(this.#askedUntil, this.#clock.now() + leaseMs);
  }

  /** The latest moment at which it ends in the store. Unanswered renewals count, and a command may be executed late. */
  get latest(): number {
    return Math.max(this.#askedUntil, this.#at + this.#lengthMs);
  }

  /**
   * Whether the machine may have slept since the store last confirmed the lease: it is neither held nor lost, and is
   * not handed out before a renewal sent later is answered.
   */
  get isSuspect(): boolean {
    if (this.#steps.length === 0) return false;
    return sum(this.#steps) > Math.min(LONG_SLEEP_MS, this.#lengthMs / 10);
  }

  /** The length to request so that the deadline stays the same. */
  lengthLeftMs(): number {
    const leftMs = this.leftMs();
    return Math.max(1, Math.floor(Math.max(leftMs + driftMarginMs(0), leftMs / 0.99)));
  }

  /** Called when a renewal for this long is sent. */
  asked(leaseMs: number): void {
    this.#askedUntil = this.latestIfRenewed(leaseMs);
  }

  /**
   * Called when a renewal for this long, sent at `sentAt`, was answered. It never makes the deadline earlier, but a
   * sleep may.
   */
  renewed(sentAt: number, leaseMs: number): void {
    const isSettled = ({ noticedAt }: ClockStep): boolean => noticedAt <= sentAt;
    const certain = this.#at - sum(this.#steps.filter(isSettled));
    this.#at = Math.max(certain, sentAt + leaseMs - driftMarginMs(leaseMs));
    this.#lengthMs = leaseMs;
    this.#promisedMs = leaseMs;
    this.#steps = this.#steps.filter((step) => !isSettled(step));
  }

  /** Called when the work of a fixed lease begins at `now`: from then on, the lease lasts no longer than its length. */
  fix(now: number, leaseMs: number): void {
    this.#at = Math.min(this.#at, now + leaseMs - driftMarginMs(leaseMs));
  }

  /** Called when the machine may have slept. */
  suspect(step: ClockStep): void {
    this.#steps = [...this.#steps, step];
  }

  /** Resolved by `tellCertain`. */
  whenCertain(): Promise<void> {
    return new Promise((resolve) => this.#onCertain.push(resolve));
  }

  /** Called when the store has confirmed the suspect lease, or the lease is over. */
  tellCertain(): void {
    for (const tell of this.#onCertain.splice(0)) tell();
  }

  /**
   * Whether a call may begin now without a round trip.
   * @param share the part of `leaseMs` that must be left
   */
  isEnoughFor(leaseMs: number, share: number): boolean {
    const leftMs = this.certainMs();
    return !this.isSuspect && leftMs > 0 && leftMs >= leaseMs * share;
  }

  /** Whether a fixed lease may begin now with its whole length, not counting the time that the store took to answer. */
  isWholeFor(leaseMs: number): boolean {
    return this.#promisedMs >= leaseMs || this.certainMs() >= leaseMs - driftMarginMs(leaseMs);
  }
}

function sum(steps: readonly ClockStep[]): number {
  return steps.reduce((total, { ms }) => total + ms, 0);
}
