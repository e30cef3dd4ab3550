import { driftMarginMs, LONGEST_BLOCK_MS } from '../store/lease-timing.js';
import type { BackupRenewal, LeaseBackup } from '../store/renewal-backup.js';
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
 *
 * A lease may have a backup, which renews it while this thread is blocked. Whatever is read here counts what the backup
 * was answered by then. That follows the same rules: a renewal counts from its sending, and once the deadline has
 * passed, none counts any more.
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
  /** When the latest command of this thread was sent that was answered. */
  #answeredAt: number;
  readonly #backup: LeaseBackup | undefined;
  /** The longest lease that the backup may have asked for. */
  #backedMs = 0;
  #isBackedUp = false;
  readonly #onCertain: (() => void)[] = [];

  /** @param steps those detected since the token was introduced */
  constructor(
    clock: Clock,
    { introducedAt, lengthMs, cameBy }: LeaseGrant,
    steps: readonly ClockStep[],
    backup?: LeaseBackup,
  ) {
    this.#backup = backup;
    this.#clock = clock;
    this.#at = introducedAt + lengthMs - driftMarginMs(lengthMs);
    this.#answeredAt = introducedAt;
    this.#askedUntil = introducedAt + lengthMs;
    this.#lengthMs = lengthMs;
    this.#promisedMs = cameBy === 'answer' ? lengthMs : 0;
    this.#steps = steps;
  }

  get at(): number {
    this.#hear();
    return this.#at;
  }

  /** The deadline if the machine has slept as long as possible. */
  get atWorst(): number {
    this.#hear();
    return this.#steps.length === 0 ? this.#at : this.#at - sum(this.#steps);
  }

  /**
   * How long the lease lasts if the machine has not slept, in milliseconds.
   * @param now read before this is called: if it is over by then, the backup is told so
   */
  leftMs(now = this.#clock.now()): number {
    return Math.max(0, this.at - now);
  }

  /** How long it is certainly ours, in milliseconds. @param now as with `leftMs` */
  certainMs(now = this.#clock.now()): number {
    return Math.max(0, this.atWorst - now);
  }

  /** The latest moment at which it ends in the store, if a renewal for this long is executed now. */
  latestIfRenewed(leaseMs: number): number {
    return Math.max(this.#askedUntil, this.#clock.now() + leaseMs);
  }

  /** The latest moment at which it ends in the store. Unanswered renewals count, and a command may be executed late. */
  get latest(): number {
    return Math.max(this.#askedUntil, this.at + Math.max(this.#lengthMs, this.#backedMs));
  }

  /**
   * Whether the machine may have slept since the store last confirmed the lease: it is neither held nor lost, and is
   * not handed out before a renewal sent later is answered.
   */
  get isSuspect(): boolean {
    this.#hear();
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
    this.#hear();
    this.#isBackedUp = false;
    this.#answeredAt = sentAt;
    this.#confirmed({ sentAt, leaseMs });
  }

  #confirmed({ sentAt, leaseMs }: BackupRenewal): void {
    const isSettled = ({ noticedAt }: ClockStep): boolean => noticedAt <= sentAt;
    const certain = this.#at - sum(this.#steps.filter(isSettled));
    this.#at = Math.max(certain, sentAt + leaseMs - driftMarginMs(leaseMs));
    this.#lengthMs = leaseMs;
    this.#promisedMs = leaseMs;
    this.#steps = this.#steps.filter((step) => !isSettled(step));
  }

  /** Called when the work of a fixed lease begins at `now`: from then on, the lease lasts no longer than its length. */
  fix(now: number, leaseMs: number): void {
    this.#at = Math.min(this.at, now + leaseMs - driftMarginMs(leaseMs));
  }

  /** Called when the machine may have slept. */
  suspect(step: ClockStep): void {
    this.#steps = [...this.#steps, step];
  }

  /** Whether the backup has renewed it since this thread did. */
  get isBackedUp(): boolean {
    this.#hear();
    return this.#isBackedUp;
  }

  /** Whether the backup was told that it is not ours, and the store has not contradicted that since. */
  get isRefused(): boolean {
    return this.#steps.some(({ ms }) => ms === Infinity);
  }

  /**
   * Lets the backup renew it, from when half of it is over: this thread is late then.
   * @param until when the hold under it must end
   */
  cover(leaseMs: number, until: number): void {
    if (this.#backup === undefined) return;
    const { at } = this;
    this.#backedMs = Math.max(this.#backedMs, leaseMs);
    this.#backup.cover({
      leaseMs,
      endsAt: at,
      dueAt: at - this.#lengthMs / 2,
      until: Math.min(until, this.#answeredAt + LONGEST_BLOCK_MS),
    });
  }

  /** Lets nothing but this thread renew it. */
  uncover(): void {
    this.#hear();
    this.#backup?.uncover();
  }

  /** Called when it is over: the backup forgets it. */
  end(): void {
    this.uncover();
    this.#backup?.end();
  }

  /** Counts what the backup was answered meanwhile. When the deadline has passed, nothing counts that comes later. */
  #hear(): void {
    const backup = this.#backup;
    if (backup === undefined) return;
    for (;;) {
      const now = this.#clock.now();
      const answer = backup.latest(this.#at <= now);
      if (answer === undefined) return;
      if (answer === 'refused') {
        // The backup may have asked another server. Until ours has answered, it is neither held nor lost.
        this.suspect({ noticedAt: now, ms: Infinity });
      } else {
        this.#confirmed(answer);
        this.#isBackedUp = true;
      }
    }
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
