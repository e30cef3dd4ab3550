import { driftMarginMs } from '../store/lease-timing.js';
import type { Clock } from '../time/clock.js';
import type { ClockStep } from '../time/suspend-detector.js';
import type { LeaseGrant } from './lease-grant.js';

/** A sleep that may have been longer than this, or than a tenth of the lease, makes a lease suspect. */
const LONG_SLEEP_MS = 1_000;

/**
 * Until when a lease is certainly ours, on this process's monotonic clock.
 *
 * It counts from the *sending* of the command that introduced the token, or of the last renewal that was answered,
 * because the store began to count later than that; a margin covers clocks that drift. When the machine may have slept,
 * our clock stood still while the store's went on: what it may have slept is taken off until a renewal sent later is
 * answered.
 */
export class LeaseDeadline {
  readonly #clock: Clock;
  #at: number;
  #askedUntil: number;
  #lengthMs: number;
  /** For how long the store promised the lease in answer to the command that counts, in milliseconds. */
  #promisedMs: number;
  /** When the machine may have slept since the last command that was answered was sent. */
  #steps: readonly ClockStep[];
  readonly #onCertain: (() => void)[] = [];

  /** @param steps that were noticed since the token was introduced */
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

  /** The same, if the machine has slept for as long as it may have. */
  get atWorst(): number {
    return this.#steps.length === 0 ? this.#at : this.#at - sum(this.#steps);
  }

  /** How long the lease lasts, in milliseconds, if the machine has not slept. */
  leftMs(): number {
    return Math.max(0, this.#at - this.#clock.now());
  }

  /** How long it is certainly ours, in milliseconds. */
  certainMs(): number {
    return Math.max(0, this.atWorst - this.#clock.now());
  }

  /** When it has ended in the store at the latest, if a renewal for this long is carried out now. */
  latestIfRenewed(leaseMs: number): number {
    return Math.max(this.#askedUntil, this.#clock.now() + leaseMs);
  }

  /**
   * When it has ended in the store at the latest. Renewals count that were not answered, and a command may be carried
   * out late.
   */
  get latest(): number {
    return Math.max(this.#askedUntil, this.#at + this.#lengthMs);
  }

  /**
   * The machine may have slept since the store last confirmed the lease: it is neither held nor lost, and nothing is
   * handed out before a renewal that was sent later is answered.
   */
  get isSuspect(): boolean {
    if (this.#steps.length === 0) return false;
    return sum(this.#steps) > Math.min(LONG_SLEEP_MS, this.#lengthMs / 10);
  }

  /** The length to ask the store for, so that the deadline stays where it is. */
  lengthLeftMs(): number {
    const leftMs = this.leftMs();
    return Math.max(1, Math.floor(Math.max(leftMs + driftMarginMs(0), leftMs / 0.99)));
  }

  /** A renewal for this long is sent. */
  asked(leaseMs: number): void {
    this.#askedUntil = this.latestIfRenewed(leaseMs);
  }

  /** A renewal for this long, sent at `sentAt`, was answered. It never brings the deadline forward, but a sleep may. */
  renewed(sentAt: number, leaseMs: number): void {
    const isSettled = ({ noticedAt }: ClockStep): boolean => noticedAt <= sentAt;
    const certain = this.#at - sum(this.#steps.filter(isSettled));
    this.#at = Math.max(certain, sentAt + leaseMs - driftMarginMs(leaseMs));
    this.#lengthMs = leaseMs;
    this.#promisedMs = leaseMs;
    this.#steps = this.#steps.filter((step) => !isSettled(step));
  }

  /** The work of a fixed lease begins at `now`, and the lease lasts no longer than its length from then on. */
  fix(now: number, leaseMs: number): void {
    this.#at = Math.min(this.#at, now + leaseMs - driftMarginMs(leaseMs));
  }

  /** The machine may have slept. */
  suspect(step: ClockStep): void {
    this.#steps = [...this.#steps, step];
  }

  /** Settled by `tellCertain`. */
  whenCertain(): Promise<void> {
    return new Promise((resolve) => this.#onCertain.push(resolve));
  }

  /** The store has confirmed the suspect lease, or the lease is over. */
  tellCertain(): void {
    for (const tell of this.#onCertain.splice(0)) tell();
  }

  /**
   * Whether a call may begin now without asking the store first.
   * @param share of `leaseMs` that must be left
   */
  isEnoughFor(leaseMs: number, share: number): boolean {
    const leftMs = this.certainMs();
    return !this.isSuspect && leftMs > 0 && leftMs >= leaseMs * share;
  }

  /** Whether a fixed lease may begin now with its whole length; what the store took to answer does not count. */
  isWholeFor(leaseMs: number): boolean {
    return this.#promisedMs >= leaseMs || this.certainMs() >= leaseMs - driftMarginMs(leaseMs);
  }
}

function sum(steps: readonly ClockStep[]): number {
  return steps.reduce((total, { ms }) => total + ms, 0);
}
