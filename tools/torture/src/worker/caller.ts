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
import { monotonicMs } from '../history/history-file.js';
import { ALL_KEYS, anyKey, severalKeys } from '../keys.js';
import type { OpenService } from './application.js';
import type { RecordedCall, Recorder, ServiceTerms } from './recorder.js';
import type { Feature } from './repertoire.js';
import type { DetachedLock, Permits, Readers, Report } from './task.js';

/** What is done while the keys are held. */
export type Work = (call: RecordedCall, lock: Lock) => Promise<void>;

/** The method of the lock service that is called. */
export type Enter = 'acquire' | 'tryAcquire' | 'withLock';

export interface CallOptions
  extends Omit<LockOptions, 'mode' | 'permits' | 'weight'>, Pick<WithLockOptions, 'onBusy'> {
  /** Whether it wants its keys alone in any case. */
  readonly alone?: boolean;
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
  readonly locks: LockService;
  readonly terms: ServiceTerms;
  readonly #readers: Readers;
  readonly #permits: Permits;

  constructor(
    readonly random: SeededRandom,
    readonly recorder: Recorder,
    { locks, terms, task: { readers, permits } }: OpenService,
    readonly report: (report: Report) => void,
    readonly without: readonly Feature[] = [],
  ) {
    this.locks = locks;
    this.terms = terms;
    this.#readers = readers;
    this.#permits = permits;
  }

  does(feature: Feature): boolean {
    return !this.without.includes(feature);
  }

  severalKeys(): string[] {
    return this.does('any-several-keys') ? severalKeys(this.random) : [anyKey(this.random)];
  }

  /** One key with this probability, otherwise several. */
  someKeys(oneKey: number): string[] {
    return this.random.chance(oneKey) ? [anyKey(this.random)] : this.severalKeys();
  }

  /**
   * Asks for keys, does the work and releases them.
   *
   * @param work a number of milliseconds stands for ordinary work of that length; by default, it is mostly short
   */
  async call(
    enter: Enter,
    what: string,
    keys: readonly string[],
    options: CallOptions = {},
    work: Work | number = this.#workMs(),
  ): Promise<void> {
    const { parent, onAsked, alone = false, ...more } = options;
    const permits = alone ? undefined : this.#permitsOf(keys, options);
    const reads = alone || permits !== undefined ? [] : this.#readsOf(keys, options);
    const given = {
      ...more,
      ...modeOf(keys, reads),
      ...(permits !== undefined && this.#wanted(permits, parent)),
    };
    const lockOptions = enter === 'tryAcquire' ? { waitMs: 0, ...given } : given;
    const call = this.recorder.ask({
      ...{ what, service: this.terms, keys, reads, options: lockOptions, parent },
      ...(permits !== undefined && { permits }),
    });
    onAsked?.(call);
    const wanted = keys.length === 1 ? (keys[0] as string) : keys;
    const works: Work =
      typeof work === 'number' ? (held, lock) => this.work(held, lock, work) : work;
    if (enter === 'withLock') return this.#withLock(call, wanted, given, works);
    let lock: Lock | null;
    try {
      lock = await this.locks[enter](wanted, given);
    } catch (error) {
      return call.refused(error);
    }
    if (lock === null) return call.busy();
    call.held(lock);
    try {
      await works(call, lock);
    } finally {
      call.ended();
      call.released(
        await lock.release().catch((error: unknown) => {
          if (!(error instanceof LockStoreError)) call.wrong(`threw on release: ${String(error)}`);
          return 'unknown' as const;
        }),
      );
    }
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
    call.act();
    while (monotonicMs() < end && !(isObedient && lock.signal.aborted)) {
      await sleep(Math.min(10, Math.max(0, end - monotonicMs())));
      call.act();
    }
    if (ms > 100 && random.chance(0.3)) await this.#inspect(call, lock);
  }

  /** Leaves its lock to whoever adopts it. */
  async detach(call: RecordedCall, lock: Lock): Promise<void> {
    const forMs = this.random.pick([500, 800, 2_000]);
    call.note('detaches', { ms: forMs });
    let text: string;
    try {
      text = await lock.detach({ forMs });
    } catch (error) {
      if (error instanceof LockLostError || error instanceof LockStoreError) return;
      return call.wrong(`threw on detach(): ${String(error)}`);
    }
    call.detached();
    this.report({ is: 'detached', text, from: call.id, keys: lock.keys });
  }

  /** Goes on under a lock that was detached, here or elsewhere. */
  async adopt({ text, from, keys }: DetachedLock): Promise<void> {
    const options = { waitMs: 0 };
    const call = this.recorder.ask({
      ...{ what: 'adopt', service: this.terms, keys, reads: [], options, parent: undefined },
      adopts: from,
    });
    const ms = this.#workMs();
    try {
      await this.locks.adopt(text, async (lock) => {
        call.held(lock);
        try {
          await this.work(call, lock, ms);
          if (this.random.chance(0.2)) await this.detach(call, lock);
        } finally {
          call.ended();
        }
      });
    } catch (error) {
      if (!call.wasHeld) return call.refused(error);
      call.wrong(`threw over its work's result: ${String(error)}`);
    }
    call.released('unsaid');
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

  /** The result of `withLock` must be that of the work. */
  async #withLock(
    call: RecordedCall,
    keys: string | readonly string[],
    options: WithLockOptions,
    work: Work,
  ): Promise<void> {
    const ownResult = Symbol('result');
    try {
      const result = await this.locks.withLock(
        keys,
        options as WithLockOptions & { onBusy?: 'throw' },
        async (lock) => {
          call.held(lock);
          if (this.locks.current(lock.key) !== lock && lock.isHeld) {
            call.wrong('is not the current lock of its own work');
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
        call.wrong(`gave ${String(result)} instead of its work's result`);
      }
    } catch (error) {
      if (!call.wasHeld) return call.refused(error);
      call.released('unsaid');
      call.wrong(`threw over its work's result: ${String(error)}`);
    }
  }

  /** Inside a call that reads, a call that does not is refused, which is tried now and then. */
  #readsOf(keys: readonly string[], { parent, holdAtLeastMs = 0 }: CallOptions): string[] {
    const { keys: readable, share } = this.#readers;
    const isRead = (key: string): boolean =>
      readable.includes(key) &&
      this.random.chance(parent?.readsAround(key) === true ? 0.97 : share);
    return holdAtLeastMs > 0 ? [] : [...new Set(keys)].filter(isRead);
  }

  /** Inside a call that has a permit, a call that wants more is refused, which is tried now and then. */
  #permitsOf(
    keys: readonly string[],
    { parent, holdAtLeastMs = 0 }: CallOptions,
  ): Readonly<Record<string, number>> | undefined {
    const { numbers, share } = this.#permits;
    const wanted = [...new Set(keys)].flatMap((key): [string, number][] => {
      const number = numbers[key];
      if (number === undefined || holdAtLeastMs > 0) return [];
      const chance = parent?.weightAround(key) === undefined ? share : 0.97;
      return this.random.chance(chance) ? [[key, number]] : [];
    });
    return wanted.length > 0 ? Object.fromEntries(wanted) : undefined;
  }

  #wanted(
    permits: Readonly<Record<string, number>>,
    parent: RecordedCall | undefined,
  ): Pick<LockOptions, 'permits' | 'weight'> {
    const around = Object.keys(permits).map((key) => parent?.weightAround(key) ?? Infinity);
    const most = Math.min(...Object.values(permits));
    const least = this.random.chance(0.97) ? Math.min(most, ...around) : most;
    return {
      permits: (key) => permits[key],
      weight: Math.min(this.random.pick([1, 1, 2]), least),
    };
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
      const keys = [this.random.pick(ALL_KEYS)];
      const options = { parent: call };
      void this.call('tryAcquire', 'try from an abort listener', keys, options, async () => {});
    });
  }

  async #ensure(call: RecordedCall, lock: Lock): Promise<void> {
    const ms = this.random.between(1, this.terms.leaseMs * 2);
    call.note('ensured', { ms });
    const before = monotonicMs();
    try {
      await lock.ensureRemaining(ms);
      call.noteDeadline();
    } catch (error) {
      if (error instanceof LockLostError || error instanceof LockStoreError) return;
      return call.wrong(`threw on ensureRemaining(${ms}): ${String(error)}`);
    }
    const leftMs = lock.remainingMs() + (monotonicMs() - before);
    if (leftMs >= ms - 1) return;
    call.wrong(`has ${leftMs.toFixed(0)} ms left after ensureRemaining(${ms})`);
  }

  async #inspect(call: RecordedCall, lock: Lock): Promise<void> {
    const key = this.random.pick(lock.keys);
    const since = monotonicMs();
    try {
      const info = await this.locks.inspect(key);
      // Redis has lost the holder's name, which comes back later; or the master is away that knows it.
      if (info !== null && !info.holders.every(({ pid }) => pid !== undefined)) return;
      const isHere = info?.holders.some(({ pid }) => pid === process.pid);
      const found = isHere ? 'this process' : 'another';
      call.note('inspected', { since, key, found: info === null ? 'nobody' : found });
    } catch (error) {
      if (!(error instanceof LockStoreError)) call.wrong(`threw on inspect(): ${String(error)}`);
    }
  }
}

function modeOf(keys: readonly string[], reads: readonly string[]): Pick<LockOptions, 'mode'> {
  if (reads.length === 0) return {};
  if (keys.every((key) => reads.includes(key))) return { mode: 'shared' };
  return { mode: (key) => (reads.includes(key) ? 'shared' : 'exclusive') };
}

/** A handler that blocks the event loop. */
export function block(ms: number): void {
  const end = monotonicMs() + ms;
  while (monotonicMs() < end);
}
