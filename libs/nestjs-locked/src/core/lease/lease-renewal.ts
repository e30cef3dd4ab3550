import { EVENTS } from '../events/lock-channels.js';
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
  /** The label of the call that has the lease, or had it last. */
  readonly label: string | undefined;
  /** The template of its key. */
  readonly template: string;
  /** Whether the lease is over or in doubt: it is not renewed any more, and a late answer changes nothing. */
  readonly isEnding: boolean;
  /** How many calls of this process wait for the lease; 0 if it may go to another process before them. */
  readonly expectedCalls: number;
  /** How long the lease and the hold under it may last. */
  leftMs(): number;
  renewed(sentAt: number, waiters: number): void;
  /** Called when the store answers that the lease is not ours. */
  notOurs(sentAt: number): void;
  /** @returns whether to retry the renewal */
  unanswered(unknown: Unknown): boolean;
  /** Called when `dueAt` has changed. */
  reschedule(): void;
}

/**
 * Keeps one lease alive: when a renewal is due, which length it requests, and how the answer changes the deadline and
 * the fencing numbers. The lease handles what the answer means for calls that want the key.
 *
 * An unanswered renewal changes nothing: the lease stays ours until its deadline, and another renewal is sent.
 */
export class LeaseRenewal implements Renewable {
  /** When the next renewal is due, on the monotonic clock; Infinity if none is planned. */
  dueAt: number;
  /** The length to request, in milliseconds, as the current hold wants it. */
  leaseMs: number;
  readonly #parts: EngineParts;
  readonly #user: RenewalUser;
  readonly #grant: LeaseGrant;
  readonly #deadline: LeaseDeadline;
  readonly #numbers: FencingNumbers;
  /** When the renewal was due that is being sent; Infinity if it is not late, however long that takes. */
  #wasDueAt = Infinity;
  /** Whether the watchdog is about to send it. */
  #isCollected = false;
  /** When the present `dueAt` was known: a renewal that was due before is not late because of us. */
  #knownAt: number;
  /** Whether the latest renewal was not answered. */
  #hasFailed = false;
  /** Whether a renewal of the watchdog is in flight. */
  #isSent = false;
  /** Whether a renewal for which a call waits is in flight. */
  #isAwaited = false;
  /** Whether the work under a fixed lease has begun, so that the store only confirms the rest of it. */
  #isFixed = false;
  /** Whether the answer to a COMMIT under the current hold is late. The hold cannot end before its transaction. */
  #isPaused = false;
  /** Whether it is unknown if the transaction under the current hold was committed. */
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
    this.#knownAt = parts.clock.now();
  }

  get deadline(): number {
    return this.#deadline.at;
  }

  get key(): string {
    return this.#user.key;
  }

  get label(): string | undefined {
    return this.#user.label;
  }

  get template(): string {
    return this.#user.template;
  }

  get lateMs(): number {
    return Math.max(0, this.#parts.clock.now() - this.#wasDueAt);
  }

  get isBackedUp(): boolean {
    return this.#deadline.isBackedUp;
  }

  /** Whether the lease is renewed again and again. */
  get isPlanned(): boolean {
    return !this.#endsByItself;
  }

  /** Whether an extra renewal may be sent; after a failure, the usual pause comes first. */
  get mayHurry(): boolean {
    return !this.#endsByItself && !this.#hasFailed;
  }

  get #endsByItself(): boolean {
    return this.#isStopped || this.#isPaused || this.#isFixed;
  }

  /** Whether the grant came as a message, which may be old, and no hold has got a number from it. */
  get #isHearsay(): boolean {
    return this.#grant.cameBy === 'message' && this.#numbers.areUnused;
  }

  // ---- when -------------------------------------------------------------------------------------------------

  /** Renews now for a waiting call, unless such a renewal is already in flight. */
  now(): void {
    if (this.#isAwaited) return;
    this.#isAwaited = true;
    this.#wasDueAt = Infinity;
    this.#parts.watchdog.collect(this);
    this.#parts.watchdog.flush();
  }

  /** Called when a call gets the lease, which was perhaps not renewed while nobody had it. */
  neededFor(leaseMs: number): void {
    this.leaseMs = leaseMs;
    this.#knownAt = this.#parts.clock.now();
  }

  /** Renews the lease for this long, before any call gets it. */
  confirm(leaseMs: number): void {
    if (this.#isHearsay) this.#numbers.awaitConfirmation();
    this.leaseMs = leaseMs;
    this.dueAt = Infinity;
    this.#user.reschedule();
    this.now();
  }

  /**
   * Called when a renewal is due: sends it with the others of this round. While the event loop is blocked, the deadline
   * may come again and again before it is sent, if it is asked for and the backup has prolonged it.
   * @param dueAt when it was due: earlier than its own `dueAt` if one is in flight, whose answer may lie unread
   */
  collect(dueAt: number): void {
    this.dueAt = Infinity;
    if (!this.#isCollected) {
      this.#isCollected = true;
      this.#wasDueAt = Math.max(dueAt, this.#knownAt);
      this.#parts.watchdog.collect(this);
    }
    this.#user.reschedule();
  }

  /** Renews as soon as possible, because the server may have changed or be empty. */
  soon(): void {
    if (this.#isStopped || this.#isPaused) return;
    // An unanswered renewal is sent again on a new connection. Another one would only delay the others.
    if (this.#isSent && !this.#deadline.isSuspect) return;
    this.dueAt = this.#parts.clock.now();
    this.#user.reschedule();
  }

  /** Fixes the end of the lease from now on. */
  fix(): void {
    this.#isFixed = true;
    this.dueAt = Infinity;
  }

  /** Stops renewing for good: the lease expires. */
  stop(): void {
    this.#isStopped = true;
    this.dueAt = Infinity;
    this.#user.reschedule();
  }

  /** Stops renewing until `resume`. */
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
    this.#isCollected = false;
    if (this.#user.isEnding) return undefined;
    this.#isSent = true;
    const suspectMs = this.#deadline.isSuspect ? this.#deadline.lengthLeftMs() : 0;
    if (!this.#isFixed) return this.#command(Math.max(this.leaseMs, suspectMs));
    const leftMs = Math.max(1, Math.ceil(this.#deadline.leftMs()));
    return this.#command(suspectMs === 0 ? leftMs : suspectMs);
  }

  #command(leaseMs: number): RenewCommand {
    this.#deadline.asked(leaseMs);
    const { areLow, areSpent } = this.#numbers;
    const mustReserve = areLow || (areSpent && this.#isAwaited) || this.#isHearsay;
    const reserves = mustReserve ? this.#numbers.more(this.#user.expectedCalls) : 0;
    const used = this.#isHearsay ? 0 : this.#numbers.used;
    return { key: this.#user.key, token: this.#grant.token, leaseMs, used, reserves };
  }

  /** Renews now, so that at least this much is left. @returns the reason if the store did not answer */
  prolong(ms: number): Promise<LockStoreError | undefined> {
    return this.renewFor(Math.max(this.leaseMs, Math.ceil(ms * 1.02) + 100));
  }

  /** Renews now. @returns the reason if the store did not answer */
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
        this.#renewed(command, sentAt, reply.blockEnd);
        return this.#user.renewed(sentAt, reply.waiters);
      case 'lost':
        return this.#user.notOurs(sentAt);
      case 'unknown':
        return this.#notRenewed(reply);
      default:
        return unreachable(reply);
    }
  }

  #renewed({ leaseMs, used, reserves }: RenewCommand, sentAt: number, blockEnd: number): void {
    if (EVENTS.hasSubscribers && !this.#numbers.areUnused) this.#tellRenewed();
    this.#deadline.renewed(sentAt, leaseMs);
    const areNew = used === 0 && blockEnd > 0;
    if (areNew && this.#numbers.areUnused) this.#numbers.replaced(blockEnd, reserves);
    else this.#numbers.reserved(blockEnd);
    this.#hasFailed = false;
    this.#knownAt = this.#parts.clock.now();
    // Not later, however far the lease was prolonged: a renewal also detects that the key was deleted.
    const dueAt = renewalDueAt(sentAt, Math.min(leaseMs, this.leaseMs));
    this.dueAt = this.#endsByItself ? Infinity : dueAt;
    // It was sent before the possible sleep, so the next one decides.
    if (this.#deadline.isSuspect && !this.#isStopped) this.dueAt = this.#retryAt;
  }

  #tellRenewed(): void {
    const { key, label, template } = this.#user;
    const marginMs = this.#deadline.leftMs();
    this.#parts.report({ type: 'renewed', key, label, template, marginMs });
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

  /** Reports once per series of failures. */
  #report(cause: LockStoreError): void {
    if (this.#hasFailed) return;
    this.#hasFailed = true;
    const { key, label, template } = this.#user;
    const of = { key, label, template };
    const remainingMs = this.#user.leftMs(); // it is retried until then
    const isAway = this.#parts.outages.reportNowOf(key); // reported once, not logged for every lock
    this.#parts.report({ type: 'renewal-unknown', ...of, remainingMs, cause, isAway });
  }
}
