import { AsyncResource } from 'node:async_hooks';
import type { AcquiredVia, WithTraceParent } from '../events/lock-messages.js';
import type { EngineParts } from '../lease/engine-parts.js';
import type { Lease } from '../lease/lease.js';
import {
  type LockCommitUnknownError,
  LockLostError,
  type LockLostReason,
  LockStoreError,
} from '../lock.errors.js';
import type { ResolvedLockOptions } from '../resolved.options.js';
import { inNeutralContext } from '../runtime/neutral-context.js';
import { HIGHEST_NUMBER } from '../store/fence-block.js';
import { templateOf } from '../template-of.js';
import { lostError, notRaisedError, suspectError } from './lost-error.js';

/** Receives the events of a hold. A hold that has already ended is ignored. */
export interface HoldKeeper {
  /** The work of the call begins. */
  holdBegins(hold: Hold, now: number): void;
  /** The lease serves no further call and is not renewed any more. */
  commitUnknown(hold: Hold): void;
  /** Whether the lease is renewed while the hold lasts. */
  setRenewing(hold: Hold, renews: boolean): void;
  /** Ends the hold of a call that has finished. @returns whether the lease was ours until now */
  endHold(hold: Hold): Promise<boolean>;
}

/** A signal and the async context in which to abort it. */
interface Alarm {
  readonly controller: AbortController;
  readonly context: AsyncResource;
}

/**
 * One call's right to one key, under the lease that was current when the hold was handed out. Calls inside that call
 * may join the hold, which ends with the last of them.
 */
export class Hold {
  readonly key: string;
  readonly options: ResolvedLockOptions;
  /** How the call got it. */
  readonly via: AcquiredVia;
  /**
   * When the key may be free at the earliest (`holdAtLeastMs`), on the monotonic clock: the latest time that any of its
   * calls requires.
   */
  keptUntil = -Infinity;
  /** The message about it on `nestjs-locked:hold`, if anybody is subscribed. */
  message: WithTraceParent | undefined;
  readonly #parts: EngineParts;
  readonly #lease: Lease;
  readonly #keeper: HoldKeeper;
  #since = Infinity;
  #endsAt = Infinity;
  #callWaitMs: number | undefined;
  #fencingToken: number;
  #alarm: Alarm | undefined;
  #lost: LockLostError | undefined;
  #users = 1;
  #isDetached = false;
  #doubt: LockCommitUnknownError | undefined;
  /** The number of COMMITs under it whose answer is late. */
  #lateCommits = 0;
  #ended: Promise<boolean> | undefined;
  #end!: (ended: Promise<boolean>) => void;

  constructor(
    parts: EngineParts,
    lease: Lease,
    keeper: HoldKeeper,
    fencingToken: number,
    options: ResolvedLockOptions,
    via: AcquiredVia,
  ) {
    this.#parts = parts;
    this.#lease = lease;
    this.#keeper = keeper;
    this.key = lease.key;
    this.#fencingToken = fencingToken;
    this.options = options;
    this.via = via;
  }

  /** Whether other calls, which only read, may have the key at the same time. */
  get isShared(): boolean {
    return this.options.mode === 'shared';
  }

  /** Whether it is one of several permits for the key. */
  get isPermit(): boolean {
    return this.options.mode === 'permit';
  }

  /** What keeps keys only for one holder, which hands them to nobody; as of the store. */
  get onlyExclusive(): string | undefined {
    return this.#parts.store.onlyExclusive;
  }

  /** A number that no other holder of the key has at the same time: 0, or that of a permit. */
  get slot(): number {
    return this.#lease.slot;
  }

  /** The key as `@Locked` has it, or a group of keys. */
  get template(): string {
    return templateOf(this.key, this.options.template);
  }

  /** The method or label of the call that acquired it. */
  get label(): string | undefined {
    return this.options.label;
  }

  /** When the work under it began, on the monotonic clock; Infinity while the call still waits for other keys. */
  get since(): number {
    return this.#since;
  }

  /** When it has lasted for `maxHoldMs`, on the monotonic clock; Infinity before its work begins. */
  get endsAt(): number {
    return this.#endsAt;
  }

  /** The `waitMs` of the call that acquired it; that of `options` is the rest of it for this key. */
  get callWaitMs(): number {
    return this.#callWaitMs ?? this.options.waitMs;
  }

  /** Called when the call has all its keys and its work starts. */
  begin(now: number, callWaitMs?: number): void {
    this.#since = now;
    this.keptUntil = now + this.options.holdAtLeastMs;
    this.#endsAt = now + this.options.maxHoldMs;
    this.#callWaitMs = callWaitMs;
    this.#keeper.holdBegins(this, now);
  }

  /** Called when the call ends before its work, so that the key need not stay taken, nor the lease linger. */
  neverWorked(): void {
    this.#since = Infinity;
    this.keptUntil = -Infinity;
  }

  get fencingToken(): number {
    return this.#fencingToken;
  }

  /**
   * Its listeners run in the async context in which the signal was first read, that of the work: they find the work's
   * open transaction, for example, and never that of the code that detected the loss.
   */
  get signal(): AbortSignal {
    this.#noticeDeadline();
    if (this.#alarm === undefined) {
      this.#alarm = { controller: new AbortController(), context: new AsyncResource('Lock') };
      if (this.#lost !== undefined) this.#alarm.controller.abort(this.#lost);
    }
    return this.#alarm.controller.signal;
  }

  /** Why it has ended before its work, if it has. */
  get lostReason(): LockLostReason | undefined {
    return this.#lost?.reason;
  }

  get isHeld(): boolean {
    return this.remainingMs() > 0;
  }

  /** How long it is certainly held; first checks whether the machine has slept. */
  remainingMs(): number {
    if (this.#users === 0 || this.#lost !== undefined) return 0;
    this.#parts.noticeSuspend();
    const now = this.#parts.clock.now();
    return Math.max(0, Math.min(this.#lease.deadline.certainMs(now), this.holdLeftMs(now)));
  }

  /** Whether it is known to have ended. While its lease is suspect, it is neither held nor over. */
  get isOver(): boolean {
    return this.#users === 0 || this.#lost !== undefined || this.#leftMs() === 0;
  }

  /** How long it lasts if the machine has not slept. */
  #leftMs(): number {
    const now = this.#parts.clock.now();
    return Math.max(0, Math.min(this.#lease.deadline.leftMs(now), this.holdLeftMs(now)));
  }

  /** Settles when it is certain whether it is held: at once, unless its lease is suspect. */
  async whenCertain(): Promise<void> {
    while (!this.isHeld && !this.isOver) await this.#lease.whenCertain();
  }

  /**
   * How long its lease keeps others out if the machine has not slept: a hold lost to `maxHoldMs` or to shutdown leaves
   * its lease in the store.
   */
  leaseLeftMs(): number {
    const reason = this.#lost?.reason;
    const isGone = this.#users === 0 || reason === 'revoked' || reason === 'deleted';
    return isGone ? 0 : this.#lease.deadline.leftMs();
  }

  /** How long it may last, regardless of the lease. */
  holdLeftMs(now = this.#parts.clock.now()): number {
    return this.#endsAt - now;
  }

  /** Declares the lease lost if its deadline has passed, even if a blocked event loop kept the timer from firing. */
  #noticeDeadline(): void {
    this.#parts.scheduler.catchUp();
  }

  /** Whether the machine may have slept since the store last confirmed the lease. */
  get #isSuspect(): boolean {
    this.#parts.noticeSuspend();
    return this.#lease.deadline.isSuspect;
  }

  /** Whether the backup of its lease was told that it is not ours, which the store has yet to say to this thread. */
  get isRefused(): boolean {
    return this.#lease.deadline.isRefused;
  }

  /** @throws LockLostError if it is over · LockStoreError while its lease is suspect */
  assertHeld(): void {
    if (this.isHeld) return;
    if (!this.isOver) throw suspectError(this);
    this.#assertNotOver();
  }

  #assertNotOver(): void {
    if (!this.isOver) return;
    this.#noticeDeadline();
    if (this.#lost !== undefined) {
      throw lostError(this, this.#lost.reason, { cause: this.#lost });
    }
    throw lostError(this, this.#users === 0 ? this.endedBy : 'expired');
  }

  /** @throws LockLostError · LockStoreError */
  async ensureRemaining(ms: number): Promise<void> {
    this.#assertMayLast(ms);
    await this.#prolong(() => ms);
    this.#assertMayLast(ms);
  }

  /** Like `ensureRemaining`, but no longer than the hold may last. @throws LockLostError · LockStoreError */
  async refresh(ms: number): Promise<void> {
    await this.#prolong(() => Math.min(ms, this.holdLeftMs()));
  }

  /**
   * Refuses a time after the end of the hold: a longer lease would only keep the key taken longer if this process died.
   * @throws LockLostError
   */
  #assertMayLast(ms: number): void {
    const leftMs = this.holdLeftMs();
    if (leftMs >= ms) return;
    this.#assertNotOver();
    throw new LockLostError(
      `Cannot ensure lock '${this.key}' for ${ms} ms: maxHoldMs ends it in ${Math.floor(leftMs)} ms; ask for less, or set a longer maxHoldMs`,
      this.key,
      'max-hold',
    );
  }

  /**
   * @param wanted returns the time that must be left; called again after the round trip, when the hold may have less
   * time left
   */
  async #prolong(wanted: () => number): Promise<void> {
    const isEnough = (): boolean => !this.#isSuspect && this.remainingMs() >= wanted();
    this.#assertNotOver();
    let cause: LockStoreError | undefined;
    do {
      if (isEnough()) return;
      cause = await inNeutralContext(() => this.#lease.renewal.prolong(wanted()));
      this.#assertNotOver();
    } while (this.#isSuspect && cause === undefined); // the clock was stepped while it was confirmed
    if (!this.isHeld) throw suspectError(this, { cause });
    if (this.remainingMs() >= wanted() || this.holdLeftMs() < wanted()) return;
    throw new LockStoreError(
      `Cannot ensure lock '${this.key}' for ${Math.floor(wanted())} ms, ${Math.floor(this.remainingMs())} ms are left: ${cause?.message ?? 'Redis took too long'}`,
      this.key,
      { cause },
      true,
    );
  }

  /** Renews its lease to the whole length, from now on. @returns the reason if the store did not answer */
  renewWhole(): Promise<LockStoreError | undefined> {
    return inNeutralContext(() => this.#lease.renewal.renewFor(this.options.leaseMs));
  }

  /**
   * Continues after a number of the database that is higher than ours, if the store confirms that we hold the key.
   * @throws LockLostError if we do not · LockStoreError if the store does not answer
   */
  async raiseFence(seen: number): Promise<void> {
    const { numbers, renewal } = this.#lease;
    if (seen > HIGHEST_NUMBER) throw notRaisedError(this.key, tooHigh(seen));
    numbers.raise(seen);
    const reserve = (): Promise<LockStoreError | undefined> =>
      inNeutralContext(() => renewal.prolong(renewal.leaseMs));
    let cause = await reserve();
    // Another reader may have raised it further meanwhile.
    if (this.isShared && cause === undefined && numbers.areSpent) cause = await reserve();
    this.assertHeld();
    if (cause !== undefined || numbers.areSpent) throw notRaisedError(this.key, cause);
    this.#fencingToken = numbers.next();
  }

  /**
   * Called when it is unknown whether the transaction under it was committed: its lease is neither renewed nor handed
   * on.
   */
  commitUnknown(doubt: LockCommitUnknownError): void {
    this.#doubt ??= doubt;
    this.#keeper.commitUnknown(this);
  }

  /** The first error about a transaction under it whose outcome is unknown. */
  get doubt(): LockCommitUnknownError | undefined {
    return this.#doubt;
  }

  /** Called when the answer to a COMMIT is late and may never come: until it does, the lease is not renewed. */
  commitIsLate(): void {
    this.#lateCommits++;
    this.#keeper.setRenewing(this, false);
  }

  /** Called when the COMMIT was answered after all. */
  commitCame(): void {
    this.#lateCommits--;
    if (this.#lateCommits === 0) this.#keeper.setRenewing(this, true);
  }

  // ---- handing it over ---------------------------------------------------------------------------------------

  /** How it has ended here, if nothing was lost. */
  get endedBy(): 'detached' | 'released' {
    return this.#isDetached ? 'detached' : 'released';
  }

  /** Whether the key must stay taken by this call for some time yet (`holdAtLeastMs`). */
  get isKept(): boolean {
    return this.keptUntil > this.#parts.clock.now();
  }

  /**
   * Prolongs its lease so that it lasts this long without this process. It is held as before, whatever comes of that.
   * @throws LockLostError · LockStoreError if the store does not answer
   */
  async prolongToDetach(forMs: number): Promise<void> {
    const cause = await inNeutralContext(() => this.#lease.renewal.renewFor(forMs));
    this.assertHeld();
    if (cause === undefined) return;
    throw new LockStoreError(
      `Cannot detach lock '${this.key}': ${cause.message}; it is still held here`,
      this.key,
      { cause },
      true,
    );
  }

  /**
   * Ends the hold here, and leaves its lease to whoever has the token.
   * @returns the token, and the highest fencing number used under it
   */
  detach(): { readonly token: string; readonly used: number } {
    const { token, numbers } = this.#lease;
    this.#users = 0;
    this.#isDetached = true;
    inNeutralContext(() => this.#lease.leave());
    return { token, used: numbers.used };
  }

  /** How many calls share the hold. */
  get users(): number {
    return this.#users;
  }

  /** Called when another call joins, which will `leave` the hold. */
  join(): void {
    this.#users++;
  }

  /**
   * Called when the call that acquired it has ended. @returns when the hold has ended, whether the lease was ours until
   * then
   */
  drop(): Promise<boolean> {
    this.#users--;
    if (this.#users > 0) this.#ended ??= new Promise((resolve) => (this.#end = resolve));
    return this.#ended ?? this.#endNow();
  }

  /**
   * Called when a call that joined has ended. It does not wait for the end of the hold: waiters would stay in memory
   * until then, and the work of one hold may make any number of calls.
   */
  leave(): void {
    this.#users--;
    if (this.#users > 0) return;
    this.#endNow().catch(() => {}); // a failure is reported to the call that acquired it, and logged
  }

  #endNow(): Promise<boolean> {
    const ended = inNeutralContext(() => this.#keeper.endHold(this));
    if (this.#ended === undefined) this.#ended = ended;
    else this.#end(ended);
    return this.#ended;
  }

  /** Called when its lease is lost, or its time is over, before its work has ended. */
  leaseLost(reason: LockLostReason): void {
    const error = this.lose(reason);
    // A call whose work has not started takes the key again, or fails with this error.
    if (this.#since === Infinity) return;
    const { key, label, template } = this;
    this.#parts.report({ type: 'lost', key, label, template, error });
  }

  /** Ends the hold before its work has ended, and aborts the signal. The first reason is kept. */
  lose(reason: LockLostReason): LockLostError {
    const lost = (this.#lost ??= lostError(this, reason));
    this.#alarm?.context.runInAsyncScope(() => this.#alarm?.controller.abort(lost));
    return lost;
  }
}

function tooHigh(seen: number): LockStoreError {
  return new LockStoreError(
    `the database has seen ${seen}, which no clock can have issued; correct it in the fence table`,
  );
}
