import type { EngineParts } from '../lease/engine-parts.js';
import { Lease } from '../lease/lease.js';
import type { LeaseGrant } from '../lease/lease-grant.js';
import type { LeaseOccupancy, LeaseUser } from '../lease/lease-user.js';
import type { LockLostReason } from '../lock.errors.js';
import type { ResolvedLockOptions } from '../resolved.options.js';
import type { ClockStep } from '../time/suspend-detector.js';
import { HandoverBudget } from './handover-budget.js';
import { Hold, type HoldKeeper } from './hold.js';

/**
 * Who is inside, for the life of one lease: which call has it, which had it before, whether the next one may have it as
 * well, and how long it is kept when nobody here wants it.
 *
 * The lease is one of four things to its occupancy. It is *in use* while a call is inside, *free* when that call has
 * ended and the queue has not decided yet, *idle* when it is kept for a moment in case another call here wants the key,
 * and none of these before it was handed out and after it has ended, which the lease itself knows.
 */
export class Occupancy implements HoldKeeper, LeaseOccupancy {
  readonly lease: Lease;
  readonly #parts: EngineParts;
  readonly #user: LeaseUser;
  readonly #handovers: HandoverBudget;
  /** The call that is inside. */
  #hold: Hold | undefined;
  /** The hold that has just ended, while the queue decides who is next. */
  #before: Hold | undefined;
  #idleUntil = Infinity;

  constructor(parts: EngineParts, key: string, user: LeaseUser, grant: LeaseGrant) {
    this.#parts = parts;
    this.#user = user;
    this.#handovers = new HandoverBudget(parts.clock, parts.options.localHandovers);
    if (grant.waiters > 0) this.#handovers.limit();
    this.lease = new Lease(parts, key, user, this, grant);
  }

  get isOccupied(): boolean {
    return this.#hold !== undefined;
  }

  /** Whether the lease is kept for a moment, although no call here wants the key. */
  get isIdle(): boolean {
    return this.lease.isResting;
  }

  /** Whether no call has it any more, and the store need not be asked before the next one gets it. */
  get isFree(): boolean {
    return this.lease.state === 'ours' && !this.isOccupied;
  }

  /** Whether a call has it, or the queue is about to give it to the next one. */
  get isTaken(): boolean {
    return this.lease.state === 'ours' && !this.isIdle;
  }

  get dueAt(): number {
    return this.isIdle ? this.#idleUntil : (this.#hold?.endsAt ?? Infinity);
  }

  holdLeftMs(): number {
    return this.#hold?.holdLeftMs() ?? Infinity;
  }

  onDue(): void {
    if (this.isIdle) this.giveUp();
    else this.lease.lose('max-hold');
  }

  // ---- letting a call in ------------------------------------------------------------------------------------

  /**
   * Whether a call may have this very lease, perhaps after a renewal. If not, the lease is handed over and asked for
   * again, for one of two reasons: other processes have waited long enough, or one of the calls has a fixed lease.
   * @param waitsSince when the call came
   */
  mayServe({ renew, leaseMs }: ResolvedLockOptions, waitsSince: number): boolean {
    const before = this.#before;
    this.#suspectWaiters();
    if (before !== undefined && (!before.options.renew || this.#handovers.isSpentFor(waitsSince)))
      return false;
    return renew || this.lease.readiness.isUnusedFor(leaseMs);
  }

  /**
   * Gives the lease to a call.
   * @param isOneOfSeveral the call waits for other keys as well: the hold begins later
   * @returns undefined if the store must confirm the lease first, or if it has just ended: the call goes on waiting
   */
  handOut(options: ResolvedLockOptions, isOneOfSeveral: boolean): Hold | undefined {
    if (this.#before !== undefined) this.#handovers.spend();
    this.#before = undefined;
    this.#parts.noticeSuspend();
    if (this.lease.state === 'over') return undefined; // the suspend has ended an idle lease: the key is asked for again
    const number = this.lease.take(options);
    if (number === undefined) return undefined;
    const hold = new Hold(this.#parts, this.lease, this, number, options);
    this.#hold = hold;
    if (isOneOfSeveral) this.lease.reschedule();
    else hold.begin(this.#parts.clock.now());
    this.lease.label.show(options.label);
    return hold;
  }

  holdBegins(hold: Hold, now: number): void {
    if (!this.#has(hold)) return;
    const { leaseMs, renew } = hold.options;
    if (!renew) {
      this.lease.deadline.fix(now, leaseMs);
      this.lease.renewal.fix();
    }
    this.lease.reschedule();
  }

  /** Whether the hold is inside, and its lease not lost. */
  #has(hold: Hold): boolean {
    return this.#hold === hold && this.lease.state === 'ours';
  }

  /**
   * Another call waits here. If no number is reserved for it, or the lease is short because it came by message, the
   * store is asked now, so that the call need not wait for that when the present hold has ended. While the store fails,
   * it is asked again after the usual pause, however many calls come.
   */
  expectCall(): void {
    const options = this.#hold?.options;
    if (options?.renew !== true || this.lease.state !== 'ours') return;
    const { readiness, renewal } = this.lease;
    if (renewal.mayHurry && !readiness.isFor(options)) renewal.now();
  }

  // ---- while it is inside -----------------------------------------------------------------------------------

  commitUnknown(hold: Hold): void {
    if (this.#has(hold)) this.lease.renewal.stop();
  }

  setRenewing(hold: Hold, renews: boolean): void {
    if (!this.#has(hold)) return;
    if (renews) this.lease.renewal.resume();
    else this.lease.renewal.pause();
  }

  lost(reason: LockLostReason): void {
    const hold = this.#hold as Hold;
    const error = hold.lose(reason);
    // Before its work starts, a call takes the key again, or fails with this error.
    if (hold.since < Infinity) this.#parts.report({ type: 'lost', key: hold.key, error });
  }

  /** The application closes: the signal of the hold aborts, and the lease is left to run out. */
  abandonHold(): void {
    if (this.isTaken) this.lease.lose('shutdown');
  }

  /** With an unknown commit, lost or not, the key is never free before the lease has run out. */
  endHold(hold: Hold): Promise<boolean> {
    this.#parts.scheduler.catchUp();
    if (this.#hold !== hold) return Promise.resolve(false);
    this.#hold = undefined;
    if (hold.doubt !== undefined) return this.lease.endInDoubt(hold.keptUntil);
    if (this.lease.state !== 'ours') {
      this.lease.releaseLost();
      return Promise.resolve(false);
    }
    const keepMs = hold.keptUntil - this.#parts.clock.now();
    if (keepMs > 0) return this.lease.release(Math.ceil(keepMs));
    this.#before = hold;
    return this.#user.onFree();
  }

  // ---- when nobody here wants it ----------------------------------------------------------------------------

  /**
   * Keeps the lease for a moment if the options of the last hold allow that; otherwise releases it. What a call gives
   * back because it did not get all its keys is not kept: it would only be in the way of others.
   */
  rest(): Promise<boolean> {
    const before = this.#before;
    this.#suspectWaiters();
    const { lingerMs } = this.#parts.options;
    const { linger = false, renew = false } = before?.options ?? {};
    const hasWorked = before !== undefined && before.since !== Infinity;
    const mayLinger = linger && renew && hasWorked && !this.#handovers.isLimited;
    if (lingerMs === 0 || !mayLinger) return this.lease.release();
    this.#idleUntil = this.#parts.clock.now() + lingerMs;
    this.lease.rest();
    return Promise.resolve(true);
  }

  /**
   * Hands the lease over to the next in the store's queue, and asks again.
   * @param since when the call asked that is served next
   * @returns whether the lease was ours until now
   */
  requeue(leaseMs: number, since: number): Promise<boolean> {
    // Nobody would wait for the answer to a release, so nobody waits for this one: the queue asks again behind it.
    if (this.#parts.outages.causeOfLong(this.lease.key) !== undefined) return this.lease.release();
    const waitedMs = this.#handovers.isStrict ? this.#parts.clock.now() - since : 0;
    return this.lease.requeue(leaseMs, waitedMs);
  }

  /** Releases an idle lease: another process wants the key, or the time for which it is kept is over. */
  giveUp(): void {
    if (this.isIdle) void this.lease.release().catch(() => {}); // already reported
  }

  // ---- what comes from outside ------------------------------------------------------------------------------

  wanted(): void {
    this.#handovers.limit();
    this.giveUp();
  }

  /** While no message arrives, nobody can tell us that another process wants the key. */
  #suspectWaiters(): void {
    if (this.#parts.silences.concern([this.lease.key])) this.#handovers.limit();
  }

  /** The server may be another one, or empty: an idle lease is not worth a renewal, any other is renewed at once. */
  lookAgain(): void {
    if (this.isIdle) this.giveUp();
    else this.lease.lookAgain();
  }

  /** The machine may have slept: our clock stood still while the lease ran on in the store. */
  suspect(step: ClockStep): void {
    const { deadline } = this.lease;
    deadline.suspect(step);
    if (deadline.isSuspect) this.lookAgain();
  }
}
