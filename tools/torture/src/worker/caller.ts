import type { SeededRandom } from 'kit';
import {
  type Lock,
  LockLostError,
  type LockOptions,
  type LockService,
  LockStoreError,
  type WithLockOptions,
} from 'nestjs-locked';
import { setTimeout as sleep } from 'node:timers/promises';
import { monotonicMs } from '../history/monotonic-ms.js';
import { ALL_KEYS, anyKey, severalKeys } from '../keys.js';
import type { RecordedCall, Recorder, ServiceTerms } from './recorder.js';
import type { Feature } from './repertoire.js';

/** What is done while the keys are held. */
export type Work = (call: RecordedCall, lock: Lock) => Promise<void>;

export interface CallOptions extends LockOptions {
  /** The call inside which this one is made. */
  readonly parent?: RecordedCall;
  /** Called with the recorded request before the library is asked. */
  readonly onAsked?: (call: RecordedCall) => void;
}

/**
 * Makes calls to a lock service and writes down what becomes of them. None of its methods throws, because the error of
 * a refused call is for the checker to judge.
 */
export class Caller {
  readonly random: SeededRandom;
  readonly recorder: Recorder;
  readonly locks: LockService;
  readonly terms: ServiceTerms;
  readonly #without: ReadonlySet<Feature>;

  constructor(
    random: SeededRandom,
    recorder: Recorder,
    locks: LockService,
    terms: ServiceTerms,
    without: readonly Feature[],
  ) {
    this.random = random;
    this.recorder = recorder;
    this.locks = locks;
    this.terms = terms;
    this.#without = new Set(without);
  }

  does(feature: Feature): boolean {
    return !this.#without.has(feature);
  }

  severalKeys(): string[] {
    return this.does('any-several-keys') ? severalKeys(this.random) : [anyKey(this.random)];
  }

  /** Does `acquire`, the work and `release`. @returns whether the work was done */
  async acquire(
    what: string,
    keys: readonly string[],
    options: CallOptions,
    work: Work,
  ): Promise<boolean> {
    const { parent, onAsked, ...lockOptions } = options;
    const call = this.#ask(what, keys, lockOptions, parent);
    onAsked?.(call);
    let lock: Lock;
    try {
      lock = await this.locks.acquire(keysOf(keys), lockOptions);
    } catch (error) {
      call.refused(error);
      return false;
    }
    await this.#use(call, lock, () => work(call, lock));
    return true;
  }

  /** Does `tryAcquire`, the work and `release`. */
  async tryAcquire(
    what: string,
    keys: readonly string[],
    options: CallOptions,
    work: Work,
  ): Promise<boolean> {
    const { parent, onAsked, ...lockOptions } = options;
    const call = this.#ask(what, keys, { waitMs: 0, ...lockOptions }, parent);
    onAsked?.(call);
    let lock: Lock | null;
    try {
      lock = await this.locks.tryAcquire(keysOf(keys), lockOptions);
    } catch (error) {
      call.refused(error);
      return false;
    }
    if (lock === null) {
      call.busy();
      return false;
    }
    const held = lock;
    await this.#use(call, held, () => work(call, held));
    return true;
  }

  /** Does `withLock`, whose result must be that of the work. */
  async withLock(
    what: string,
    keys: readonly string[],
    options: CallOptions & Pick<WithLockOptions, 'onBusy'>,
    work: Work,
  ): Promise<boolean> {
    const { parent, onAsked, ...lockOptions } = options;
    const call = this.#ask(what, keys, lockOptions, parent);
    onAsked?.(call);
    const ownResult = Symbol('result');
    try {
      const result = await this.locks.withLock(
        keysOf(keys),
        lockOptions as WithLockOptions & { onBusy?: 'throw' },
        async (lock) => {
          call.held(lock);
          if (this.locks.current(lock.key) !== lock && lock.isHeld) {
            this.recorder.wrong(`${call.id} is not the current lock of its own work`);
          }
          try {
            await work(call, lock);
          } finally {
            call.ended();
          }
          return ownResult;
        },
      );
      if (call.wasHeld) call.released('unsaid');
      else call.busy();
      if (call.wasHeld !== (result === ownResult)) {
        this.recorder.wrong(`${call.id} gave ${String(result)} instead of its work's result`);
      }
    } catch (error) {
      if (!call.wasHeld) {
        call.refused(error);
        return false;
      }
      call.released('unsaid');
      this.recorder.wrong(`${call.id} threw over its work's result: ${String(error)}`);
    }
    return call.wasHeld;
  }

  /** Work of some length, during which various things are done. */
  async work(call: RecordedCall, lock: Lock, ms = this.#workMs()): Promise<void> {
    const { random } = this;
    this.#watchContext(call);
    if (random.chance(0.04)) await this.#ensure(call, lock);
    if (random.chance(0.02)) await this.#inspect(call, lock);
    if (random.chance(0.003)) await this.list();
    if (random.chance(0.002)) block(random.between(10, this.terms.leaseMs * 1.5));
    const end = monotonicMs() + ms;
    const isObedient = random.chance(0.5); // the other calls go on although they were told to stop
    while (monotonicMs() < end && !(isObedient && lock.signal.aborted)) {
      await sleep(Math.min(10, Math.max(0, end - monotonicMs())));
    }
    if (ms > 100 && random.chance(0.3)) await this.#inspect(call, lock);
  }

  /** Acts as an operator. */
  async list(): Promise<void> {
    try {
      for await (const info of this.locks.list('*')) {
        if (info.key === '') this.recorder.wrong('list() gave an empty key');
      }
    } catch (error) {
      if (!(error instanceof LockStoreError)) this.recorder.wrong(`list() threw ${String(error)}`);
    }
  }

  /** No hold may be found in this context except those on the allowed keys. */
  assertOwnContext(where: string, allowed: readonly string[] = []): void {
    for (const key of ALL_KEYS) {
      if (allowed.includes(key) || this.locks.current(key) === undefined) continue;
      this.recorder.wrong(`${where} has the hold of another call on ${key} in its async context`);
    }
  }

  #ask(
    what: string,
    keys: readonly string[],
    options: LockOptions,
    parent: RecordedCall | undefined,
  ): RecordedCall {
    return this.recorder.ask({ what, service: this.terms, keys, options, parent });
  }

  async #use(call: RecordedCall, lock: Lock, work: () => Promise<void>): Promise<void> {
    call.held(lock);
    try {
      await work();
    } finally {
      call.ended();
      const answer = await lock.release().catch((error: unknown) => {
        if (!(error instanceof LockStoreError)) {
          this.recorder.wrong(`release of ${call.id} threw ${String(error)}`);
        }
        return 'unknown' as const;
      });
      call.released(answer);
    }
  }

  #workMs(): number {
    const { random } = this;
    return random.chance(0.015) ? random.between(0, 1_500) : random.between(0, 12);
  }

  /** A listener of the signal runs in the context of the code that added it, and can lock there. */
  #watchContext(call: RecordedCall): void {
    if (!this.does('abort-listeners')) return;
    call.whenLost(() => {
      this.assertOwnContext(`a listener of the signal of ${call.id}`, call.ambientKeys);
      if (!this.random.chance(0.3)) return;
      const key = this.random.pick(ALL_KEYS);
      void this.tryAcquire('try from an abort listener', [key], { parent: call }, async () => {});
    });
  }

  async #ensure(call: RecordedCall, lock: Lock): Promise<void> {
    const ms = this.random.between(1, this.terms.leaseMs * 2);
    call.ensured(ms);
    const before = monotonicMs();
    try {
      await lock.ensureRemaining(ms);
      call.noteDeadline();
    } catch (error) {
      if (error instanceof LockLostError || error instanceof LockStoreError) return;
      this.recorder.wrong(`ensureRemaining(${ms}) of ${call.id} threw ${String(error)}`);
      return;
    }
    const leftMs = lock.remainingMs() + (monotonicMs() - before);
    if (leftMs < ms - 1) {
      this.recorder.wrong(
        `ensureRemaining(${ms}) of ${call.id} came back with ${leftMs.toFixed(0)} ms left`,
      );
    }
  }

  async #inspect(call: RecordedCall, lock: Lock): Promise<void> {
    const key = this.random.pick(lock.keys);
    const since = monotonicMs();
    try {
      const info = await this.locks.inspect(key);
      // Redis has lost the holder's name, which comes back later; or the master is away that knows it.
      if (info !== null && info.holder?.pid === undefined) return;
      const found =
        info === null ? 'nobody' : info.holder?.pid === process.pid ? 'this process' : 'another';
      this.recorder.append({
        kind: 'inspected',
        at: monotonicMs(),
        call: call.id,
        since,
        key,
        found,
      });
    } catch (error) {
      if (error instanceof LockStoreError) return;
      this.recorder.wrong(`inspect() threw ${String(error)}`);
    }
  }
}

/** A handler that blocks the event loop. */
export function block(ms: number): void {
  const end = monotonicMs() + ms;
  while (monotonicMs() < end);
}

function keysOf(keys: readonly string[]): string | readonly string[] {
  return keys.length === 1 ? (keys[0] as string) : keys;
}
