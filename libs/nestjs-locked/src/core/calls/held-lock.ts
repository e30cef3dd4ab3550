import { assertIsFunction } from '../arguments.js';
import { assertLockKey } from '../keys/lock-key.js';
import { LockConfigError, LockKeyError, type LockLostError } from '../lock.errors.js';
import type { DetachOptions, Lock } from '../lock.js';
import { assertOptions } from '../option.js';
import { DETACH_OPTIONS } from '../option-tables.js';
import type { Hold } from '../queue/hold.js';
import { lostError } from '../queue/lost-error.js';
import { JointSignal } from '../runtime/joint-signal.js';
import { shownValue } from '../runtime/shown-value.js';
import type { LoopTurn } from '../time/loop-turn.js';
import type { AmbientHolds } from './ambient-holds.js';
import { detachLevels } from './detach.js';
import { writtenHandOff } from './hand-off.js';
import { HeldHere } from './held-here.js';
import type { ReentryLevel } from './reentry-level.js';
import { isGuardedAnywhere, isGuardedHere } from './transaction-registry.js';

/** Runs the work in the open transaction of the context, if there is one. */
export type RunInTransaction = <T>(
  holds: readonly Hold[],
  work: () => T | Promise<T>,
) => Promise<T>;

const METHODS = [
  'assertHeld',
  'detach',
  'ensureRemaining',
  'fencingTokenOf',
  'release',
  'remainingMs',
  'run',
  'slotOf',
] as const;

/** The lock that a call gets: all its keys, acquired or joined. */
export class HeldLock implements Lock {
  readonly #levels: readonly ReentryLevel[];
  readonly #ambient: AmbientHolds;
  readonly #loopTurn: LoopTurn;
  readonly #onReleased: (wasHeld?: boolean) => void;
  readonly #runInTransaction: RunInTransaction;
  readonly #keyPrefix: string | undefined;
  /** The joint signal of several keys, once requested. */
  #joint: JointSignal | undefined;
  /** The reference that the contexts of its work keep. */
  #here: HeldHere | undefined;
  #released: Promise<boolean> | undefined;
  #detached: Promise<string> | undefined;
  #hasEnded = false;

  /**
   * @param levels one for each key, in the order in which they were taken; at least one
   * @param onReleased called when the release has been answered, with whether the lock was ours until then, or has
   * failed
   * @param runInTransaction used when the holds become the current ones of a context
   * @param keyPrefix of the service; undefined for the default
   */
  constructor(
    levels: readonly ReentryLevel[],
    ambient: AmbientHolds,
    loopTurn: LoopTurn,
    onReleased: (wasHeld?: boolean) => void,
    runInTransaction: RunInTransaction,
    keyPrefix: string | undefined,
  ) {
    this.#keyPrefix = keyPrefix;
    this.#levels = levels;
    this.#ambient = ambient;
    this.#loopTurn = loopTurn;
    this.#onReleased = onReleased;
    this.#runInTransaction = runInTransaction;
  }

  get key(): string {
    return this.#first.hold.key;
  }

  get keys(): readonly string[] {
    return this.#levels.map(({ hold }) => hold.key);
  }

  /** The method or label of the call that acquired it. */
  get label(): string | undefined {
    return this.#first.hold.label;
  }

  get template(): string {
    return this.#first.hold.template;
  }

  get holds(): readonly Hold[] {
    return this.#levels.map(({ hold }) => hold);
  }

  get fencingToken(): number {
    return fencingTokenOf(this.#first.hold);
  }

  fencingTokenOf(key: string): number {
    return fencingTokenOf(this.#holdOf(key, 'fencing token'));
  }

  get slot(): number {
    return this.#first.hold.slot;
  }

  slotOf(key: string): number {
    return this.#holdOf(key, 'slot').slot;
  }

  #holdOf(key: string, what: string): Hold {
    const level = this.#levels.find(({ hold }) => hold.key === key);
    if (level !== undefined) return level.hold;
    assertLockKey(key);
    throw new LockKeyError(
      `Cannot tell the ${what} of '${key}': this lock holds ${this.keys.map((held) => `'${held}'`).join(', ')}; pass one of lock.keys`,
      key,
    );
  }

  get signal(): AbortSignal {
    const signals = this.#levels.map(({ hold }) => hold.signal);
    if (signals.length === 1) return this.#first.hold.signal;
    this.#joint ??= new JointSignal(signals);
    if (this.#hasEnded) this.#joint.detach();
    return this.#joint.signal;
  }

  get isHeld(): boolean {
    return this.remainingMs() > 0;
  }

  get isReleased(): boolean {
    return this.#released !== undefined;
  }

  /** Whether it is known to be no longer held. */
  get isOver(): boolean {
    return this.#released !== undefined || this.#levels.some(({ hold }) => hold.isOver);
  }

  remainingMs(): number {
    if (this.#released !== undefined) return 0;
    return Math.min(...this.#levels.map(({ hold }) => hold.remainingMs()));
  }

  assertHeld(): void {
    for (const { hold } of this.#levels) hold.assertHeld();
    // The holds that it joined may still be held by other calls.
    if (this.#released !== undefined) throw this.#ended();
  }

  #ended(): LockLostError {
    const { hold } = this.#first;
    return lostError(hold, hold.endedBy);
  }

  async ensureRemaining(ms: number): Promise<void> {
    if (!Number.isSafeInteger(ms) || ms < 0) {
      throw new LockConfigError(
        `Cannot ensure lock '${this.key}' for ${shownValue(ms)} ms: it must be a whole number of milliseconds, 0 or more`,
        this.key,
      );
    }
    for (;;) {
      try {
        if (this.#released !== undefined) throw this.#ended();
        await Promise.all(this.#levels.map(({ hold }) => hold.ensureRemaining(ms)));
      } catch (error) {
        await this.#loopTurn.pause();
        throw error;
      }
      const pause = this.#loopTurn.pause();
      if (pause === undefined) return;
      await pause; // it may be lost during the pause
    }
  }

  async run<T>(work: () => T | Promise<T>): Promise<T> {
    try {
      assertIsFunction(work, 'lock.run(() => …)');
      if (!this.isHeld && !this.isOver)
        await Promise.all(this.holds.map((hold) => hold.whenCertain()));
      this.assertHeld();
      return await this.#runInTransaction(this.holds, () => this.runHere(async () => work()));
    } finally {
      await this.#loopTurn.pause();
    }
  }

  /** Runs the work with this lock as the current one. */
  runHere<T>(work: () => T): T {
    return this.#ambient.run((this.#here ??= new HeldHere(this, this.#levels)), work);
  }

  /** Whether calls or transactions that joined one of these holds continue after this lock was released. */
  get isOutlived(): boolean {
    return this.#outlived.length > 0;
  }

  /** What keeps the lock; nothing keeps a lost one. */
  get keptBy(): 'calls' | 'transaction' | undefined {
    const kept = this.#outlived.filter(({ hold }) => !hold.isOver);
    if (kept.length === 0) return undefined;
    return kept.some(({ hold }) => isGuardedAnywhere(hold)) ? 'transaction' : 'calls';
  }

  get #outlived(): readonly ReentryLevel[] {
    return this.#levels.filter(({ hold, isRoot, isOpen }) => isRoot && !isOpen && hold.users > 0);
  }

  async detach(options: DetachOptions): Promise<string> {
    try {
      assertOptions(DETACH_OPTIONS, options, { owner: 'detach' });
      this.#detached ??= this.#detach(options);
      return await this.#detached;
    } finally {
      await this.#loopTurn.pause();
    }
  }

  async #detach({ forMs }: DetachOptions): Promise<string> {
    try {
      const leases = await detachLevels(this.#levels, forMs, () => this.assertHeld());
      this.#released = Promise.resolve(true);
      this.#afterEnd(true);
      return writtenHandOff(this.#keyPrefix, leases);
    } catch (error) {
      this.#detached = undefined;
      throw error;
    }
  }

  async release(): Promise<boolean> {
    try {
      return await this.#end();
    } finally {
      await this.#loopTurn.pause(); // not before handing it out: it may be lost during a pause
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release().catch(() => {}); // already reported
  }

  /** Releases without ever throwing: a failure is reported by the lease. */
  settle(): Promise<void> {
    return this.#end().then(settled, settled);
  }

  #end(): Promise<boolean> {
    this.#released ??= this.#release();
    if (!this.#isKeptByThisCode) return this.#released;
    this.#released.catch(() => {}); // already reported
    return Promise.resolve(this.#levels.every(({ hold }) => !hold.isOver));
  }

  /** Whether the running code is in a call or transaction that keeps the hold, and would wait for itself. */
  get #isKeptByThisCode(): boolean {
    if (this.#ambient.isInsideCallThatJoined(this.#levels)) return true;
    // The work itself may be ending a transaction, or be a hook of one; only a transaction's body is recognized by its
    // context.
    const isGuarded = this.#ambient.isInside(this.#here) ? isGuardedAnywhere : isGuardedHere;
    return this.#levels.some(({ hold }) => isGuarded(hold));
  }

  async #release(): Promise<boolean> {
    let wasHeld: boolean | undefined;
    try {
      wasHeld =
        this.#levels.length === 1
          ? await this.#first.close()
          : (await Promise.all([...this.#levels].reverse().map((level) => level.close()))).every(
              Boolean,
            );
      return wasHeld;
    } finally {
      this.#afterEnd(wasHeld);
    }
  }

  #afterEnd(wasHeld: boolean | undefined): void {
    this.#hasEnded = true;
    this.#joint?.detach();
    this.#here?.released();
    this.#onReleased(wasHeld);
  }

  get #first(): ReentryLevel {
    return this.#levels[0] as ReentryLevel;
  }

  /** Methods that were taken off their lock, as by `({ assertHeld }) => …`, say so. */
  static {
    for (const name of METHODS) {
      const method = Reflect.get(this.prototype, name) as (...args: unknown[]) => unknown;
      const checked = function (this: unknown, ...args: unknown[]): unknown {
        if (this instanceof HeldLock) return Reflect.apply(method, this, args);
        throw new LockConfigError(
          `Cannot use a method of Lock without its lock: call it as lock.${name}(…)`,
        );
      };
      Object.defineProperty(this.prototype, name, { value: checked });
    }
  }
}

/** @throws LockConfigError for a permit */
function fencingTokenOf({ key, isPermit, fencingToken }: Hold): number {
  if (!isPermit) return fencingToken;
  throw new LockConfigError(
    `Cannot tell the fencing token of '${key}': it is held with permits, so several hold it at once, in no order that a token could tell; use lock.slot to tell them apart, or lock exclusively`,
    key,
  );
}

function settled(): void {}
