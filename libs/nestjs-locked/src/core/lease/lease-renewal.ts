import type { LockStoreError } from '../lock.errors.js';
import { unreachable } from '../runtime/unreachable.js';
import { renewalDueAt, renewalRetryAt } from '../store/lease-timing.js';
import type { RenewCommand, RenewReply, Unknown } from '../store/lock-store.js';
import type { EngineParts } from './engine-parts.js';
import type { FencingNumbers } from './fencing-numbers.js';
import type { LeaseDeadline } from './lease-deadline.js';
import type { LeaseGrant } from './lease-grant.js';
import type { Renewable } from './watchdog.js';

/** The lease, as its renewal sees it. */
export interface RenewalUser {
  readonly key: string;
  /** Over, or in doubt: the lease is not renewed any more, and a late answer changes nothing. */
  readonly isEnding: boolean;
  /** How long the lease lasts, and the hold under it may. */
  leftMs(): number;
  renewed(sentAt: number, waiters: number): void;
  /** The store says that the lease is not ours. */
  notOurs(sentAt: number): void;
  /** @returns whether the renewal is to be tried again */
  unanswered(unknown: Unknown): boolean;
  /** `dueAt` has changed. */
  reschedule(): void;
}

/**
 * Keeps one lease alive: when a renewal is due, for how long it asks, and what the answer says about the deadline and
 * the fencing numbers. What the answer means for those who want the key is the business of the lease.
 *
 * A renewal that was not answered changes nothing: the lease stays ours until its deadline, and another one is sent.
 */
export class LeaseRenewal implements Renewable {
  /** When the next renewal is due, on the monotonic clock; Infinity if none is planned. */
  dueAt: number;
  /** The length that we ask the store for, in milliseconds: as the present hold wants it. */
  leaseMs: number;
  readonly #parts: EngineParts;
  readonly #user: RenewalUser;
  readonly #grant: LeaseGrant;
  readonly #deadline: LeaseDeadline;
  readonly #numbers: FencingNumbers;
  /** The latest renewal was not answered. */
  #hasFailed = false;
  /** The watchdog has sent a renewal, and there is no answer yet. */
  #isSent = false;
  /** A renewal is on its way for which a call waits. */
  #isAwaited = false;
  /** The work under a fixed lease has begun: the store confirms what is left of it, and no more. */
  #isFixed = false;
  /** The answer to a COMMIT under the present hold is late. The hold cannot end before that of its transaction. */
  #isPaused = false;
  /** Nobody knows whether the transaction under the present hold was committed. */
  #isStopped = false;

  constructor(
    parts: EngineParts,
    user: RenewalUser,
    grant: LeaseGrant,
    deadline: LeaseDeadline,
    numbers: FencingNumbers,
  ) {
    this.#parts = parts;
    this.#user = user;
    this.#grant = grant;
    this.#deadline = deadline;
    this.#numbers = numbers;
    this.leaseMs = grant.leaseMs;
    this.dueAt = renewalDueAt(grant.introducedAt, grant.lengthMs);
  }

  get deadline(): number {
    return this.#deadline.at;
  }

  /** Whether nothing stands in the way of one renewal more; after a failure, the usual pause comes first. */
  get mayHurry(): boolean {
    return !this.#endsByItself && !this.#hasFailed;
  }

  get #endsByItself(): boolean {
    return this.#isStopped || this.#isPaused || this.#isFixed;
  }

  /** Its grant came as a message, which may be an old one, and no hold has been given a number of it. */
  get #isHearsay(): boolean {
    return this.#grant.cameBy === 'message' && this.#numbers.areUnused;
  }

  // ---- when -------------------------------------------------------------------------------------------------

  /** A call waits for the answer. Nothing is sent while a renewal that was asked for like this is on its way. */
  now(): void {
    if (this.#isAwaited) return;
    this.#isAwaited = true;
    this.#parts.watchdog.collect(this);
    this.#parts.watchdog.flush();
  }

  /** Nobody has the lease before the store has confirmed it for this long. */
  confirm(leaseMs: number): void {
    if (this.#isHearsay) this.#numbers.awaitConfirmation();
    this.leaseMs = leaseMs;
    this.dueAt = Infinity;
    this.#user.reschedule();
    this.now();
  }

  /** It is due: goes with the others of this round. */
  collect(): void {
    this.dueAt = Infinity;
    this.#parts.watchdog.collect(this);
    this.#user.reschedule();
  }

  /** The server may be another one, or empty: as soon as possible. */
  soon(): void {
    if (this.#isStopped || this.#isPaused) return;
    // A renewal without an answer is sent again on a new connection. One more would only keep the others waiting.
    if (this.#isSent && !this.#deadline.isSuspect) return;
    this.dueAt = this.#parts.clock.now();
    this.#user.reschedule();
  }

  /** From now on the lease ends with the length that it has. */
  fix(): void {
    this.#isFixed = true;
    this.dueAt = Infinity;
  }

  /** Never again: the lease runs out. */
  stop(): void {
    this.#isStopped = true;
    this.dueAt = Infinity;
    this.#user.reschedule();
  }

  /** Not before `resume`. */
  pause(): void {
    this.#isPaused = true;
    this.dueAt = Infinity;
    this.#user.reschedule();
  }

  resume(): void {
    this.#isPaused = false;
    this.dueAt = this.#endsByItself ? Infinity : this.#parts.clock.now();
    this.#user.reschedule();
  }

  // ---- the command ------------------------------------------------------------------------------------------

  renewCommand(): RenewCommand | undefined {
    if (this.#user.isEnding) return undefined;
    this.#isSent = true;
    const suspectMs = this.#deadline.isSuspect ? this.#deadline.lengthLeftMs() : 0;
    if (!this.#isFixed) return this.#command(Math.max(this.leaseMs, suspectMs));
    const leftMs = Math.max(1, Math.ceil(this.#deadline.leftMs()));
    return this.#command(suspectMs === 0 ? leftMs : suspectMs);
  }

  #command(leaseMs: number): RenewCommand {
    this.#deadline.asked(leaseMs);
    const { areLow, areSpent, used } = this.#numbers;
    const reserves = areLow || (areSpent && this.#isAwaited) || this.#isHearsay;
    return { key: this.#user.key, token: this.#grant.token, leaseMs, used, reserves };
  }

  /** Renews now, so that at least this much is left. @returns why the store did not answer, if it did not */
  prolong(ms: number): Promise<LockStoreError | undefined> {
    return this.renewFor(Math.max(this.leaseMs, Math.ceil(ms * 1.02) + 100));
  }

  /** Renews now. @returns why the store did not answer, if it did not */
  async renewFor(leaseMs: number): Promise<LockStoreError | undefined> {
    const command = this.#command(leaseMs);
    const sentAt = this.#parts.clock.now();
    const [answer] = this.#parts.store.renew([command]);
    const reply = (await answer) as RenewReply;
    this.onRenewReply(command, sentAt, reply);
    return reply.kind === 'unknown' ? reply.cause : undefined;
  }

  // ---- the answer -------------------------------------------------------------------------------------------

  onRenewReply(command: RenewCommand, sentAt: number, reply: RenewReply): void {
    this.#parts.scheduler.catchUp();
    this.#isAwaited = false;
    this.#isSent = false;
    if (this.#user.isEnding) return;
    switch (reply.kind) {
      case 'renewed':
        this.#renewed(command.leaseMs, sentAt, reply.blockEnd);
        return this.#user.renewed(sentAt, reply.waiters);
      case 'lost':
        return this.#user.notOurs(sentAt);
      case 'unknown':
        return this.#notRenewed(reply);
      default:
        return unreachable(reply);
    }
  }

  #renewed(leaseMs: number, sentAt: number, blockEnd: number): void {
    this.#deadline.renewed(sentAt, leaseMs);
    if (this.#isHearsay) this.#numbers.confirmed(blockEnd);
    this.#numbers.reserved(blockEnd);
    this.#hasFailed = false;
    // Renewed as early as ever, however far it was prolonged: a renewal also notices that the key was deleted.
    const dueAt = renewalDueAt(sentAt, Math.min(leaseMs, this.leaseMs));
    this.dueAt = this.#endsByItself ? Infinity : dueAt;
    // It was sent before the machine may have slept: the next one tells.
    if (this.#deadline.isSuspect && !this.#isStopped) this.dueAt = this.#retryAt;
  }

  #notRenewed(unknown: Unknown): void {
    if (!this.#user.unanswered(unknown)) return;
    this.#report(unknown.cause);
    if (this.#isStopped || (this.#isFixed && !this.#deadline.isSuspect)) return;
    this.dueAt = this.#retryAt;
    this.#user.reschedule();
  }

  get #retryAt(): number {
    return renewalRetryAt(this.#parts.clock.now());
  }

  /** Once for a row of failures. */
  #report(cause: LockStoreError): void {
    if (this.#hasFailed) return;
    this.#hasFailed = true;
    const { key } = this.#user;
    const remainingMs = this.#user.leftMs(); // until then it is tried again
    const isAway = this.#parts.outages.tellOf(key); // said once, it need not be logged for every lock
    this.#parts.report({ type: 'renewal-unknown', key, remainingMs, cause, isAway });
  }
}
