import { TRACE_PARENT } from '../events/lock-messages.js';
import type { EngineParts } from '../lease/engine-parts.js';
import { Lease } from '../lease/lease.js';
import type { LeaseGrant } from '../lease/lease-grant.js';
import type { LeaseUser } from '../lease/lease-user.js';
import type { LockLostReason } from '../lock.errors.js';
import type { ResolvedLockOptions } from '../resolved.options.js';
import type { PresentCall } from '../store/holder-question.js';
import { templateOf } from '../template-of.js';
import type { ClockStep } from '../time/suspend-detector.js';
import { Hold, type HoldKeeper } from './hold.js';
import { HoldEnds } from './hold-ends.js';
import type { Occupancy } from './occupancy.js';

/**
 * The occupancy of a shared lease: all readers of this process that have it. A reader that comes joins them without a
 * command until another process is known to want the key exclusively, or until the lease is in any doubt: then it is
 * left to the readers inside, and later ones wait for a lease of their own, in the store's queue.
 *
 * Doubt is the doubt of one reader. If its time is over, or the outcome of its COMMIT is unknown, the lease is renewed
 * as long as another reader needs it, and is not released while a reader in doubt is inside.
 */
export class SharedOccupancy implements HoldKeeper, Occupancy {
  readonly isShared = true;
  readonly isTaken = false;
  readonly lease: Lease;
  readonly #parts: EngineParts;
  readonly #user: LeaseUser;
  readonly #holds = new Set<Hold>();
  readonly #ends = new HoldEnds();
  /** How many readers inside want a lease of each length. */
  readonly #lengths = new Map<number, number>();
  /** The readers whose COMMIT has not been answered in time. */
  readonly #late = new Set<Hold>();
  #isPaused = false;
  readonly #isHandedOver: boolean;
  /** Whether all readers that waited for the lease have been let in, whoever wants the key. */
  #hasServed = false;
  /** Whether another process waits, as far as is known. */
  #isWanted: boolean;
  /** Whether no reader is let in any more, whoever wants the key. */
  #isClosed = false;
  /** Whether the queue has left the lease to the readers inside. */
  #isParted = false;
  /** The reader in doubt that has left: after an unknown commit, the lease is not released. */
  #doubtful: Hold | undefined;
  /** The reader that was let in last. */
  #latest: Hold | undefined;
  /** The last reader, which has just ended, while the queue decides who is next. */
  #before: Hold | undefined;
  /** The reader of which others were told last. */
  #shown: { readonly hold: Hold; readonly since: Date } | undefined;
  #idleUntil = Infinity;

  /** @param hasWaited whether the queue was told to wait for the lease */
  constructor(
    parts: EngineParts,
    key: string,
    user: LeaseUser,
    grant: LeaseGrant,
    hasWaited: boolean,
  ) {
    this.#parts = parts;
    this.#user = user;
    this.#isHandedOver = hasWaited;
    this.#isWanted = grant.waiters > 0;
    this.lease = new Lease(parts, key, user, this, grant);
  }

  get holds(): Iterable<Hold> {
    return this.#holds;
  }

  get isOccupied(): boolean {
    return this.#holds.size > 0;
  }

  get isWanted(): boolean {
    return this.#isWanted;
  }

  get label(): string | undefined {
    return this.#latest?.label;
  }

  get template(): string {
    return templateOf(this.lease.key, this.#latest?.options.template);
  }

  get call(): PresentCall | null {
    const hold = [...this.#holds].at(-1);
    if (hold === undefined) return null;
    if (this.#shown?.hold !== hold) this.#shown = { hold, since: this.#sinceOf(hold) };
    const { label, fencingToken } = hold;
    const traceParent = hold.message?.[TRACE_PARENT];
    return { label, since: this.#shown.since, fencingToken, traceParent };
  }

  #sinceOf(hold: Hold): Date {
    const { clock } = this.#parts;
    const now = clock.now();
    return new Date(clock.wallNow() - (now - Math.min(now, hold.since)));
  }

  get isIdle(): boolean {
    return this.lease.isResting;
  }

  get isHeld(): boolean {
    return this.lease.state === 'ours' && this.isOccupied;
  }

  get isFree(): boolean {
    return this.lease.state === 'ours';
  }

  get isOpen(): boolean {
    return this.isFree;
  }

  /** The readers that are not in doubt. */
  #sound(): Hold[] {
    return [...this.#holds].filter((hold) => hold.doubt === undefined && !isLost(hold));
  }

  get dueAt(): number {
    return this.isIdle ? this.#idleUntil : this.#ends.first;
  }

  holdLeftMs(): number {
    return Math.max(...this.#sound().map((hold) => hold.holdLeftMs()), 0);
  }

  /** Readers whose time is over are lost, each alone. */
  onDue(): void {
    if (this.isIdle) return this.giveUp();
    this.#isClosed = true; // before a listener of a signal asks for the key again
    for (const hold of this.#ends.takeUntil(this.#parts.clock.now())) {
      if (!isLost(hold)) hold.leaseLost('max-hold');
    }
    this.#renewIfNeeded();
    this.lease.reschedule();
  }

  // ---- letting readers in -----------------------------------------------------------------------------------

  /**
   * While a reader is inside, the lease is not confirmed for another one: it would be lost to the first as well. The
   * lease of a call with `renew: false` is shared with nobody.
   */
  mayServe(options: ResolvedLockOptions): boolean {
    this.#suspectWaiters();
    this.#parts.noticeSuspend();
    if (this.#isClosed || this.lease.state === 'over') return false;
    if (this.#isWanted && this.#hasServed) return false;
    if (!options.renew) return this.lease.readiness.isUnusedFor(options.leaseMs);
    return !this.isOccupied || this.lease.readiness.isFor(options);
  }

  handOut(options: ResolvedLockOptions, isOneOfSeveral: boolean): Hold | undefined {
    this.#before = undefined;
    const number = this.lease.take(options);
    if (number === undefined) return undefined;
    const via = this.#latest !== undefined ? 'local' : this.#isHandedOver ? 'handed-over' : 'free';
    const hold = new Hold(this.#parts, this.lease, this, number, options, via);
    if (this.#user.waiters === 1) this.#allServed();
    this.#latest = hold;
    this.#holds.add(hold);
    this.#count(hold, 1);
    this.#needLongest();
    if (this.#isPaused) this.#renewIfNeeded();
    if (!options.renew) this.#isClosed = true;
    if (isOneOfSeveral) this.lease.reschedule();
    else hold.begin(this.#parts.clock.now());
    return hold;
  }

  /** Called when nobody waits any more: the last one was let in, or has given up. */
  #allServed(): void {
    this.#hasServed = true;
    this.lease.readiness.used();
  }

  #count({ options: { leaseMs } }: Hold, difference: 1 | -1): void {
    const count = (this.#lengths.get(leaseMs) ?? 0) + difference;
    if (count > 0) this.#lengths.set(leaseMs, count);
    else this.#lengths.delete(leaseMs);
  }

  /** Renews for as long as the reader that wants the longest lease. */
  #needLongest(): void {
    this.lease.renewal.neededFor(Math.max(...this.#lengths.keys()));
  }

  holdBegins(hold: Hold, now: number): void {
    if (!this.#has(hold)) return;
    this.#ends.add(hold);
    const { leaseMs, renew } = hold.options;
    if (!renew) {
      this.lease.deadline.fix(now, leaseMs);
      this.lease.renewal.fix();
    }
    this.lease.reschedule();
  }

  /** Whether the reader is inside and its lease not lost. */
  #has(hold: Hold): boolean {
    return this.#holds.has(hold) && this.lease.state === 'ours';
  }

  /** A reader that comes is let in, or asks for a lease of its own. */
  expectCall(): void {}

  // ---- while readers are inside -----------------------------------------------------------------------------

  commitUnknown(hold: Hold): void {
    if (!this.#has(hold)) return;
    this.#isClosed = true;
    this.#renewIfNeeded();
  }

  setRenewing(hold: Hold, renews: boolean): void {
    if (renews) this.#late.delete(hold);
    else this.#late.add(hold);
    if (this.#has(hold)) this.#renewIfNeeded();
  }

  /** The lease is renewed as long as one reader inside needs it. */
  #renewIfNeeded(): void {
    const { renewal } = this.lease;
    const sound = this.#sound();
    const wasPaused = this.#isPaused;
    this.#isPaused = sound.every((hold) => this.#late.has(hold));
    if (sound.length === 0) renewal.stop();
    else if (this.#isPaused && !wasPaused) renewal.pause();
    else if (wasPaused && !this.#isPaused) renewal.resume();
  }

  lost(reason: LockLostReason): void {
    for (const hold of this.#holds) if (!isLost(hold)) hold.leaseLost(reason);
  }

  abandonHold(): void {
    if (this.isHeld) this.lease.lose('shutdown');
  }

  /** The last reader takes the lease with it, unless the queue may let in another one. */
  endHold(hold: Hold): Promise<boolean> {
    this.#parts.scheduler.catchUp();
    if (!this.#holds.delete(hold)) return Promise.resolve(false);
    this.#ends.delete(hold);
    this.#count(hold, -1);
    this.#late.delete(hold);
    if (hold.doubt !== undefined) this.#doubtful = hold;
    const wasHeld = this.lease.state === 'ours' && !isLost(hold);
    if (this.isOccupied) {
      if (this.lease.state === 'ours') this.#readerLeft();
      return Promise.resolve(wasHeld);
    }
    if (this.#doubtful !== undefined) return this.lease.endInDoubt(-Infinity);
    if (this.lease.state !== 'ours') {
      this.lease.releaseLost();
      return Promise.resolve(false);
    }
    this.#before = hold;
    const released = this.#isParted ? this.lease.release() : this.#user.onFree();
    return isLost(hold) ? released.then(() => false) : released;
  }

  #readerLeft(): void {
    this.#needLongest();
    if (this.#isClosed || this.#late.size > 0) this.#renewIfNeeded();
    this.lease.reschedule();
  }

  // ---- when no reader is left -------------------------------------------------------------------------------

  rest(): Promise<boolean> {
    if (this.isOccupied) {
      this.#allServed();
      return Promise.resolve(true);
    }
    this.#suspectWaiters();
    const { lingerMs } = this.#parts.options;
    const { linger = false, renew = false } = this.#before?.options ?? {};
    const hasWorked = this.#before !== undefined && this.#before.since !== Infinity;
    const mayLinger = linger && renew && hasWorked && !this.#isWanted && !this.#isClosed;
    if (lingerMs === 0 || !mayLinger) return this.lease.release();
    this.#idleUntil = this.#parts.clock.now() + lingerMs;
    this.lease.rest();
    return Promise.resolve(true);
  }

  /** The next reader asks for a lease of its own, behind whoever waits. */
  requeue(): Promise<boolean> {
    return this.lease.release();
  }

  part(): void {
    this.#isParted = true;
  }

  giveUp(): void {
    if (this.isIdle) void this.lease.release().catch(() => {}); // already reported
  }

  // ---- what comes from outside ------------------------------------------------------------------------------

  wanted(): void {
    this.#isWanted = true;
    this.giveUp();
  }

  /** Assumes that another process waits while no messages arrive that could say so. */
  #suspectWaiters(): void {
    if (this.#parts.silences.concern([this.lease.key])) this.#isWanted = true;
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

/** Whether its work is known to have lost the key; a hold that ended by itself has no reason. */
function isLost(hold: Hold): boolean {
  return hold.lostReason !== undefined;
}
