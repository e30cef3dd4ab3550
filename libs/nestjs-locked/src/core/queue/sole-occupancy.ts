import { type AcquiredVia, TRACE_PARENT } from '../events/lock-messages.js';
import type { EngineParts } from '../lease/engine-parts.js';
import { Lease } from '../lease/lease.js';
import type { LeaseGrant } from '../lease/lease-grant.js';
import type { LeaseUser } from '../lease/lease-user.js';
import type { LockLostReason } from '../lock.errors.js';
import type { ResolvedLockOptions } from '../resolved.options.js';
import type { PresentCall } from '../store/holder-question.js';
import { templateOf } from '../template-of.js';
import type { ClockStep } from '../time/suspend-detector.js';
import { HandoverBudget } from './handover-budget.js';
import { Hold, type HoldKeeper } from './hold.js';
import type { Occupancy } from './occupancy.js';

const NOBODY: readonly Hold[] = [];

/**
 * The occupancy of an exclusive lease: which call has it, which had it before, and whether the next may have it. That
 * of a permit has one call, after which it goes back to the store: whoever has waited longest gets it, in whichever
 * process.
 */
export class SoleOccupancy implements HoldKeeper, Occupancy {
  readonly isShared: boolean;
  readonly lease: Lease;
  readonly #parts: EngineParts;
  readonly #user: LeaseUser;
  readonly #handovers: HandoverBudget;
  /** Whether another process may have had the key before. */
  readonly #isHandedOver: boolean;
  /** Whether a call of this process has had it. */
  #isLeftHere = false;
  /** The hold of the call inside. */
  #hold: Hold | undefined;
  /** The hold that has just ended, while the queue decides who is next. */
  #before: Hold | undefined;
  /** When the call inside has got it, on the monotonic clock, and for people once somebody has asked. */
  #since = 0;
  #shownSince: Date | undefined;
  #label: string | undefined;
  #template: string | undefined;
  #idleUntil = Infinity;

  /**
   * @param hasWaited whether the queue was told to wait for the lease
   * @param isPermit whether others may have the key at the same time
   */
  constructor(
    parts: EngineParts,
    key: string,
    user: LeaseUser,
    grant: LeaseGrant,
    hasWaited: boolean,
    isPermit = false,
  ) {
    this.isShared = isPermit;
    this.#parts = parts;
    this.#user = user;
    this.#handovers = new HandoverBudget(parts.clock, parts.options.localHandovers);
    this.#isHandedOver = hasWaited;
    if (grant.waiters > 0) this.#handovers.limit();
    this.lease = new Lease(parts, key, user, this, grant);
  }

  get isOccupied(): boolean {
    return this.#hold !== undefined;
  }

  get holds(): readonly Hold[] {
    return this.#hold === undefined ? NOBODY : [this.#hold];
  }

  get label(): string | undefined {
    return this.#label;
  }

  get template(): string {
    return templateOf(this.lease.key, this.#template);
  }

  get call(): PresentCall | null {
    const hold = this.#hold;
    if (hold === undefined) return null;
    const { clock } = this.#parts;
    const since = (this.#shownSince ??= new Date(clock.wallNow() - (clock.now() - this.#since)));
    const { label, fencingToken } = hold;
    return { label, since, fencingToken, traceParent: hold.message?.[TRACE_PARENT] };
  }

  get isIdle(): boolean {
    return this.lease.isResting;
  }

  get isHeld(): boolean {
    return this.lease.state === 'ours' && this.isOccupied;
  }

  get isFree(): boolean {
    return this.lease.state === 'ours' && !this.isOccupied;
  }

  get isOpen(): boolean {
    return this.isIdle;
  }

  /** Whether a call has the lease, or the queue is about to give it to the next one. */
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
   * It may not because other processes have waited long enough, or because of `renew: false`. The lease of such a call
   * goes to no later one, and such a call takes only an unused lease of its own length.
   */
  mayServe({ renew, leaseMs }: ResolvedLockOptions, waitsSince: number): boolean {
    const before = this.#before;
    this.#suspectWaiters();
    if (before !== undefined && (!before.options.renew || this.#handovers.isSpentFor(waitsSince)))
      return false;
    return renew || this.lease.readiness.isUnusedFor(leaseMs);
  }

  handOut(options: ResolvedLockOptions, isOneOfSeveral: boolean): Hold | undefined {
    if (this.#before !== undefined) {
      this.#handovers.spend();
      this.#isLeftHere = true;
    }
    this.#before = undefined;
    this.#parts.noticeSuspend();
    if (this.lease.state === 'over') return undefined; // the suspend has ended an idle lease: the key is requested again
    const number = this.lease.take(options);
    if (number === undefined) return undefined;
    this.lease.readiness.used();
    const hold = new Hold(this.#parts, this.lease, this, number, options, this.#nextVia);
    this.#hold = hold;
    this.#since = this.#parts.clock.now();
    this.#shownSince = undefined;
    this.#label = options.label;
    this.#template = options.template;
    if (isOneOfSeveral) this.lease.reschedule();
    else hold.begin(this.#since);
    return hold;
  }

  /** How the next call gets it. */
  get #nextVia(): AcquiredVia {
    if (this.#isLeftHere) return 'local';
    return this.#isHandedOver ? 'handed-over' : 'free';
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

  /** Whether the hold is inside and its lease not lost. */
  #has(hold: Hold): boolean {
    return this.#hold === hold && this.lease.state === 'ours';
  }

  /**
   * If no fencing number is reserved for it, or the lease is short because it was granted by message, renews now, so
   * that the call need not wait for that after the current hold. While the store fails, the usual pause applies,
   * however many calls come.
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
    (this.#hold as Hold).leaseLost(reason);
  }

  abandonHold(): void {
    if (this.isTaken) this.lease.lose('shutdown');
  }

  /** After an unknown commit, lost or not, the key is never free before the lease has expired. */
  endHold(hold: Hold): Promise<boolean> {
    this.#parts.scheduler.catchUp();
    if (this.#hold !== hold) return Promise.resolve(false);
    this.#hold = undefined;
    if (hold.options.firstLeaseMs === 'learned')
      this.#parts.firstLeases.held(this.template, this.#parts.clock.now() - this.#since);
    if (hold.doubt !== undefined) return this.lease.endInDoubt(hold.keptUntil);
    const keepMs = Math.max(0, Math.ceil(hold.keptUntil - this.#parts.clock.now()));
    if (this.lease.state !== 'ours') {
      this.lease.releaseLost(keepMs);
      return Promise.resolve(false);
    }
    if (keepMs > 0) return this.lease.release(keepMs);
    this.#before = hold;
    return this.isShared ? this.lease.release() : this.#user.onFree();
  }

  // ---- when nobody here wants it ----------------------------------------------------------------------------

  /**
   * Keeps the lease for `lingerMs` if the options of the last hold allow that; otherwise releases it. A lease given
   * back by a call that did not get all its keys is not kept, because it would only block others.
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

  /** Hands the lease over to the next in the store's queue, and requests it again. */
  requeue(since: number): Promise<boolean> {
    // Calls do not wait for a release during an outage, so this does not either: the queue requests the key again after
    // it.
    if (this.#parts.outages.failFastCause(this.lease.key) !== undefined)
      return this.lease.release();
    const waitedMs = this.#handovers.isStrict ? this.#parts.clock.now() - since : 0;
    return this.lease.requeue(waitedMs);
  }

  /** Called for a permit, which is released after its call in any case. */
  part(): void {}

  giveUp(): void {
    if (this.isIdle) void this.lease.release().catch(() => {}); // already reported
  }

  // ---- what comes from outside ------------------------------------------------------------------------------

  get isWanted(): boolean {
    return this.#handovers.isLimited;
  }

  wanted(): void {
    this.#handovers.limit();
    this.giveUp();
  }

  /** Assumes that another process waits while no messages arrive that could say so. */
  #suspectWaiters(): void {
    if (this.#parts.silences.concern([this.lease.key])) this.#handovers.limit();
  }

  lookAgain(): void {
    if (this.isIdle) this.giveUp();
    else this.lease.lookAgain();
  }

  suspect(step: ClockStep): void {
    const { deadline } = this.lease;
    deadline.suspect(step);
    if (deadline.isSuspect) this.lookAgain();
  }
}
