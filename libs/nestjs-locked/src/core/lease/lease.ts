import type { LockLostReason } from '../lock.errors.js';
import type { ResolvedLockOptions } from '../resolved.options.js';
import { unreachable } from '../runtime/unreachable.js';
import type { InboxMessage, Unknown } from '../store/lock-store.js';
import type { TokenOwner } from '../store/token-registry.js';
import type { Scheduled } from '../time/scheduler.js';
import type { EngineParts } from './engine-parts.js';
import { FencingNumbers } from './fencing-numbers.js';
import { LeaseDeadline } from './lease-deadline.js';
import type { LeaseGrant } from './lease-grant.js';
import { LeaseReadiness } from './lease-readiness.js';
import { LeaseRelease } from './lease-release.js';
import { LeaseRenewal, type RenewalUser } from './lease-renewal.js';
import type { LeaseOccupancy, LeaseUser } from './lease-user.js';
import { LeftLease } from './left-lease.js';

/**
 * confirming  ours, but too short or too old to be handed out: it is renewed first, then offered to the queue
 * ours        handed out, or resting in case another call here wants the key
 * in-doubt    a transaction under it may or may not have been committed: no call gets it, and it expires
 * over        released, handed over, left or lost; only a lost lease can still become in-doubt, when its work has ended
 */
type State = 'confirming' | 'ours' | 'in-doubt' | 'over';

/**
 * This process's right to a key, for the life of one token: until when the key is ours, and what ends that. Its
 * occupancy knows which call is inside and which may be next.
 *
 * The parts that do not depend on the states are separate: how long the lease lasts (`LeaseDeadline`), how it is
 * renewed (`LeaseRenewal`), which numbers its holds get (`FencingNumbers`), and how it ends in the store
 * (`LeaseRelease`).
 *
 * Two rules hold in every state. Once the deadline has passed, nothing revives the lease, whatever a late answer says.
 * And no call gets a lease in doubt: waiting calls request a new one.
 */
export class Lease implements Scheduled, TokenOwner, RenewalUser {
  scheduled: Scheduled['scheduled'];
  readonly key: string;
  readonly #parts: EngineParts;
  readonly #user: LeaseUser;
  readonly #occupancy: LeaseOccupancy;
  readonly #grant: LeaseGrant;
  readonly deadline: LeaseDeadline;
  readonly numbers: FencingNumbers;
  readonly renewal: LeaseRenewal;
  readonly readiness: LeaseReadiness;
  readonly #ending: LeaseRelease;
  #state: State = 'confirming';
  /** Whether no call has it and it is not renewed. Read only while it is ours; `take` ends it. */
  #isResting = false;
  /** When something is due, as it was last scheduled. */
  #dueAt = Infinity;

  constructor(
    parts: EngineParts,
    key: string,
    user: LeaseUser,
    occupancy: LeaseOccupancy,
    grant: LeaseGrant,
  ) {
    this.#parts = parts;
    this.key = key;
    this.#user = user;
    this.#occupancy = occupancy;
    this.#grant = grant;
    const backup = parts.store.backup?.of(key, grant.token);
    const steps = parts.stepsAfter(grant.introducedAt);
    this.deadline = new LeaseDeadline(parts.clock, grant, steps, backup);
    this.numbers = new FencingNumbers(grant, occupancy.isShared);
    this.renewal = new LeaseRenewal(parts, this, grant, this.deadline, this.numbers);
    this.readiness = new LeaseReadiness(parts.store, grant, this.deadline, this.numbers);
    const { token } = grant;
    this.#ending = new LeaseRelease(parts, key, token, this.deadline, this.numbers, occupancy);
    parts.tokens.assign(token, this);
  }

  get token(): string {
    return this.#grant.token;
  }

  /** Of a permit: the least number that no other permit of the key had when it was granted. */
  get slot(): number {
    return this.#grant.slot ?? 0;
  }

  get state(): State {
    return this.#state;
  }

  get isResting(): boolean {
    return this.#state === 'ours' && this.#isResting;
  }

  get isEnding(): boolean {
    return this.#state === 'over' || this.#state === 'in-doubt';
  }

  leftMs(): number {
    return Math.min(this.deadline.leftMs(), Math.max(0, this.#occupancy.holdLeftMs()));
  }

  get expectedCalls(): number {
    return this.#occupancy.isWanted ? 0 : this.#user.waiters;
  }

  get label(): string | undefined {
    return this.#occupancy.label;
  }

  get template(): string {
    return this.#occupancy.template;
  }

  // ---- handing it out ---------------------------------------------------------------------------------------

  /** Called when the store has granted it: offers it to the first call, or has it confirmed before. */
  start(): void {
    const { leaseMs, cameBy, introducedAt } = this.#grant;
    if (cameBy === 'answer') this.#answered(introducedAt);
    if (this.readiness.isOfferedAtOnce) this.#offer();
    else this.#confirmOrRefuse(leaseMs);
  }

  #offer(): void {
    void this.#user.onFree().catch(() => {}); // already reported
  }

  /**
   * Takes the lease for a call.
   * @returns the fencing number of its hold; undefined if the store must confirm the lease first
   */
  take(options: ResolvedLockOptions): number | undefined {
    if (!this.readiness.isFor(options)) {
      this.#confirmOrRefuse(options.leaseMs);
      return undefined;
    }
    this.#isResting = false;
    this.renewal.neededFor(options.leaseMs);
    this.#state = 'ours';
    return this.numbers.next();
  }

  /** Refuses if the store answers too slowly for the lease: it would be renewed for ever, and no call would get it. */
  #confirmOrRefuse(leaseMs: number): void {
    const { answers } = this.#user;
    if (!answers.areTooSlowFor(leaseMs)) return this.#confirm(leaseMs);
    this.#user.answersTooSlowly(answers.tooSlow(this.key, leaseMs), leaseMs);
  }

  /**
   * Renews before a call gets the lease. No call holds it meanwhile, so the store's answer decides, not our deadline.
   */
  #confirm(leaseMs: number): void {
    const { answers } = this.#user;
    if (answers.isTooSlowFor(leaseMs)) this.#user.storeFails(answers.tooSlow(this.key, leaseMs));
    this.readiness.used();
    this.#state = 'confirming';
    this.renewal.confirm(leaseMs);
  }

  /** Keeps the lease without a call and without renewal. */
  rest(): void {
    this.#isResting = true;
    this.reschedule();
  }

  // ---- keeping it -------------------------------------------------------------------------------------------

  renewed(sentAt: number, waiters: number): void {
    if (this.deadline.certainMs() > 0) this.deadline.tellCertain();
    if (waiters > 0) this.#occupancy.wanted();
    this.#answered(sentAt);
    if (this.#state === 'confirming') this.#offer();
    else this.reschedule();
  }

  notOurs(sentAt: number): void {
    if (this.#state !== 'confirming') return this.lose('deleted');
    this.#answered(sentAt);
    this.#askAgain();
  }

  /** Called when the store has answered a command that was sent at this moment. */
  #answered(sentAt: number): void {
    const tookMs = this.#parts.clock.now() - sentAt;
    this.#user.answers.took(tookMs);
    this.#parts.stalls.stalled(tookMs);
  }

  unanswered(unknown: Unknown): boolean {
    if (this.#state !== 'confirming') return true;
    const isOver = this.deadline.at <= this.#parts.clock.now();
    if (isOver || this.#user.isEmpty) {
      this.#failToConfirm(unknown);
      return false;
    }
    this.#user.storeFails(unknown.cause);
    return true;
  }

  /** Resolves when the store has confirmed the lease or it is over; at once, unless it is suspect. */
  whenCertain(): Promise<void> {
    if (this.#state !== 'ours' || this.deadline.certainMs() > 0) return Promise.resolve();
    return this.deadline.whenCertain();
  }

  /** Called when the server may have changed or be empty: renews at once. */
  lookAgain(): void {
    if (this.#state === 'ours') this.renewal.soon();
  }

  // ---- what is due ------------------------------------------------------------------------------------------

  onDue(now: number): void {
    switch (this.#state) {
      case 'ours':
        if (this.#hasExpired(now))
          return this.lose(this.deadline.isRefused ? 'deleted' : 'expired');
        if (now >= Math.min(this.deadline.at, this.#occupancy.dueAt))
          return this.#occupancy.onDue();
        return this.renewal.collect(this.#dueAt);
      case 'confirming':
        return this.renewal.collect(this.#dueAt);
      case 'in-doubt':
      case 'over':
        return this.#forget();
      default:
        return unreachable(this.#state);
    }
  }

  /** Whether its deadline has passed, and its hold had not ended before. */
  #hasExpired(now: number): boolean {
    const { at } = this.deadline;
    return now >= at && at < this.#occupancy.dueAt && !this.#isResting;
  }

  reschedule(): void {
    this.#dueAt = this.#nextDue();
    this.#parts.scheduler.schedule(this, this.#dueAt);
    const isRenewed = this.#state === 'ours' && this.renewal.isPlanned;
    if (isRenewed && this.#occupancy.isOccupied)
      this.deadline.cover(this.renewal.leaseMs, this.#occupancy.dueAt);
    else this.deadline.uncover();
  }

  #nextDue(): number {
    switch (this.#state) {
      case 'ours':
        return Math.min(
          this.deadline.at,
          this.#occupancy.dueAt,
          this.#isResting ? Infinity : this.renewal.dueAt,
        );
      case 'confirming':
        return this.renewal.dueAt;
      case 'in-doubt':
        return this.#forgottenAt;
      case 'over':
        return this.#occupancy.isOccupied ? this.#forgottenAt : Infinity;
      default:
        return unreachable(this.#state);
    }
  }

  /**
   * When the token may be forgotten: not while a late renewal could still keep the lease, because an unknown token is
   * released when others want the key.
   */
  get #forgottenAt(): number {
    return this.deadline.latest + this.renewal.leaseMs;
  }

  // ---- giving it back ---------------------------------------------------------------------------------------

  /** @param keepMs the key stays taken for this long, by nobody @returns whether the lease was ours until now */
  release(keepMs = 0): Promise<boolean> {
    this.#end();
    const released = this.#ending.release(keepMs);
    this.#user.over(this); // calls that arrived meanwhile request it again, after the release
    return released;
  }

  /**
   * Hands the lease over to the next in the store's queue, and requests it again.
   * @param waitedMs whoever came later than this long ago stays behind
   * @returns whether the lease was ours until now
   */
  requeue(waitedMs: number): Promise<boolean> {
    this.#end();
    const next = this.#user.askAgain(this);
    return this.#ending.requeue(next, waitedMs);
  }

  /**
   * Ends the lease while the transaction under it may yet be committed: nobody gets the key before the lease has
   * expired, lost or not. If the key is to be kept longer, it stays taken in the store.
   * @returns whether the lease was ours until now
   */
  endInDoubt(keptUntil: number): Promise<boolean> {
    const wasOurs = this.#state === 'ours';
    if (wasOurs && keptUntil > this.deadline.at) {
      const until = Math.max(keptUntil, this.deadline.latestIfRenewed(this.renewal.leaseMs));
      return this.release(Math.ceil(until - this.#parts.clock.now()));
    }
    this.#state = 'in-doubt';
    this.deadline.tellCertain();
    this.reschedule();
    this.#user.over(this);
    return Promise.resolve(wasOurs);
  }

  /** Ends the lease here, but not in the store, which keeps it for whoever has its token. */
  leave(): void {
    const until = this.#forgottenAt;
    this.#end();
    const { tokens, scheduler } = this.#parts;
    new LeftLease(tokens, scheduler, this.token, until);
    this.#user.over(this);
  }

  // ---- losing it --------------------------------------------------------------------------------------------

  /** Doubt ends sharing: no call gets this lease any more, and waiting calls request a new one. */
  lose(reason: LockLostReason): void {
    this.#end();
    if (this.#occupancy.isOccupied) {
      this.#occupancy.lost(reason);
      this.reschedule(); // because its work may never end
    } else {
      this.releaseLost();
    }
    this.#user.over(this);
  }

  /**
   * Releases a lost lease after the work under it has ended, because it may only have been believed lost.
   * @param keepMs if nobody else has had it, the key stays taken for this long
   */
  releaseLost(keepMs = 0): void {
    this.#parts.scheduler.cancel(this);
    this.#ending.afterLoss(keepMs);
  }

  /**
   * Called when the grant lapsed before it was confirmed: the queue requests the lease again, from its old position.
   */
  #askAgain(): void {
    this.#forget();
    this.#user.over(this, this.#grant.position);
  }

  #failToConfirm(unknown: Unknown): void {
    this.#end();
    this.releaseLost();
    this.#user.storeFailed(this, unknown, this.#grant.position);
  }

  /** Ends without a command, because the store no longer has the lease. */
  #forget(): void {
    this.#end();
    this.#ending.forget();
  }

  #end(): void {
    this.#state = 'over';
    this.#parts.scheduler.cancel(this);
    this.deadline.end();
    this.deadline.tellCertain();
  }

  // ---- what comes from outside ------------------------------------------------------------------------------

  onMessage(message: InboxMessage): void {
    switch (message.kind) {
      case 'wanted':
        return this.#occupancy.wanted();
      case 'revoked':
        return this.#revoked();
      case 'grant': // repeated
      case 'head': // late
        return;
      default:
        return unreachable(message);
    }
  }

  /**
   * Called when an operator has taken the key away. The store has another value now, so there is nothing to release.
   */
  #revoked(): void {
    switch (this.#state) {
      case 'ours':
        return this.lose('revoked');
      case 'confirming':
        return this.#askAgain();
      case 'in-doubt':
        return this.#forget();
      case 'over':
        return;
      default:
        return unreachable(this.#state);
    }
  }
}
