import { inspect } from 'node:util';
import { assertIsFunction } from '../core/arguments.js';
import type { LockEngine } from '../core/engine/lock-engine.js';
import {
  type HasLockRunner,
  IS_LOCK_ENGINE,
  LOCK_RUNNER,
  type LockRunner,
} from '../core/engine/lock-runner.js';
import { KeyTemplate } from '../core/keys/key-template.js';
import { assertLockKey } from '../core/keys/lock-key.js';
import type { Leadership, LeaderWork, LeadOptions } from '../core/leadership.js';
import { LockConfigError, LockKeyError } from '../core/lock.errors.js';
import type { Lock } from '../core/lock.js';
import type {
  AdoptOptions,
  BusyContext,
  GivenWhenBusy,
  LockKeys,
  LockOptions,
  WithLockOptions,
} from '../core/lock.options.js';
import { type HasLockHealth, LOCK_HEALTH, type LockHealth } from '../core/lock-health.js';
import type { LockInfo, LockWait } from '../core/lock-info.js';
import { type HasLockOverview, LOCK_OVERVIEW, type LockOverview } from '../core/lock-overview.js';
import { checkedOnce } from '../core/resolved.options.js';
import { describeValue, shownValue } from '../core/runtime/shown-value.js';
import { isUnread, lazyProblem } from './result/lazy-result.js';

type Work<T> = (lock: Lock) => T | Promise<T>;

const NO_OPTIONS = checkedOnce({});

/**
 * What the options must be. Instead of other things, a sentence, with which the compiler ends its error. The last line
 * makes it infer the type.
 */
type ValidOptions<Options> = Options extends (...args: never) => unknown
  ? 'The options come before the work: withLock(key, options, work)'
  : Options extends number
    ? 'The lease is renewed while the work runs, so it needs no time: withLock(key, work)'
    : [Options] extends [never]
      ? Options
      : WithLockOptions & { [Name in NoOption<Options>]: NoOptionAdvice<Name> };

type NoOption<Options> = Exclude<keyof Options & string, keyof WithLockOptions>;
type NoOptionAdvice<Name extends string> =
  `'${Name}' is no option: waitMs limits the wait, maxHoldMs the work; the lease is renewed and needs no time`;

/**
 * Locks for code that needs more than `@Locked`. Inject this service; `RedisLockModule` provides it.
 *
 * All methods check keys and options before any Redis traffic (`LockKeyError`, `LockConfigError`) and reject with
 * `LockStoreError` when Redis does not answer: whether the lock is held is then unknown, and the work was not run.
 * Several keys are taken in an order independent of the one given, and a call has all of them or fails.
 */
export class LockService implements HasLockRunner, HasLockHealth, HasLockOverview {
  readonly #engine: LockEngine;
  #hasToldUnread = false;

  /** Called by the lock modules only. @throws LockConfigError for any other caller */
  constructor(engine: object) {
    if (!(IS_LOCK_ENGINE in Object(engine))) {
      throw new LockConfigError(
        'Cannot make a LockService: leave it out of providers, import RedisLockModule.forRoot(…) in the root module, and inject it; in unit tests call new TestLocks().service() of nestjs-locked/testing',
      );
    }
    this.#engine = engine as LockEngine;
  }

  /** For `@Locked`; not part of the public contract. @hidden */
  get [LOCK_RUNNER](): LockRunner {
    return this.#engine;
  }

  /** @param service what `this` is in a method @throws LockConfigError if the method was taken off its service */
  static #engineOf(service: LockService | undefined): LockEngine {
    if (#engine in Object(service)) return (service as LockService).#engine;
    throw new LockConfigError(
      `Cannot use a method of LockService without its service, on ${describeValue(service)}: call it as locks.withLock(…), and not as withLock(…)`,
    );
  }

  /**
   * Waits for the lock, runs the work and releases the lock. This is the recommended form, because the release cannot
   * be forgotten.
   *
   * It settles with the work's result or error, even if the release fails. If the lease is lost while the work runs,
   * `lock.signal` aborts; how to react is up to the work. Calls inside the work that ask for the same key join this
   * hold; concurrent branches that do so take turns.
   *
   * The lock lasts until the Promise of the work has settled. Read a stream, an Observable or an async iterable inside
   * the work.
   *
   * @throws LockNotAcquiredError if somebody else held it for `waitMs` · LockAbortedError if `signal` ended the wait ·
   * LockInTransactionError inside an open transaction, unless `insideTransaction` says otherwise · LockConfigError if
   * the work returned an Observable, a generator or an array of Promises, which would run without the lock
   */
  withLock<T>(key: LockKeys, work: Work<T>): Promise<T>;
  withLock<T>(key: LockKeys, options: WithLockOptions<'throw'>, work: Work<T>): Promise<T>;
  withLock<T, const Busy extends 'throw' | 'skip' = 'throw'>(
    key: LockKeys,
    options: WithLockOptions<Busy>,
    work: Work<T>,
  ): Promise<T | GivenWhenBusy<Busy>>;
  withLock<T, Instead>(
    key: LockKeys,
    options: WithLockOptions<(busy: BusyContext) => Instead>,
    work: Work<T>,
  ): Promise<T | Awaited<Instead>>;
  // Of more than three overloads that fit in number, the compiler reports only the last one. It infers nothing from a
  // function with a parameter, such as work in the place of the options; then the default counts.
  withLock<Options = Work<unknown>>(
    key: LockKeys,
    options: ValidOptions<Options>,
    work: Work<unknown>,
  ): Promise<unknown>;
  withLock<T>(key: LockKeys, optionsOrWork: unknown, work?: Work<T>): Promise<T> {
    if (typeof optionsOrWork !== 'function') {
      // The types refuse undefined only under strictNullChecks.
      const options = optionsOrWork === undefined ? {} : (optionsOrWork as WithLockOptions);
      if (typeof work === 'function') return LockService.#run(this, key, options, work);
      return misused(
        key,
        typeof key === 'function'
          ? 'the key comes before the work: withLock(key, work)'
          : `withLock needs a function to run, and not ${describeValue(work ?? optionsOrWork)}: withLock(key, () => …)`,
      );
    }
    if (work === undefined)
      return LockService.#run(this, key, NO_OPTIONS, optionsOrWork as Work<T>);
    return misused(key, 'the options come before the work: withLock(key, options, work)');
  }

  static #run<T>(
    service: LockService,
    key: LockKeys,
    options: WithLockOptions,
    work: Work<T>,
  ): Promise<T> {
    const ended = LockService.#engineOf(service).withLock(key, options, work);
    return ended.then((result) => service.#checked(key, result));
  }

  /** @throws LockConfigError if the result of work would run without the lock */
  #checked<T>(key: LockKeys, result: T): T {
    const problem = lazyProblem(result);
    if (problem !== undefined) throw misuse(key, problem);
    if (!this.#hasToldUnread && isUnread(result)) this.#tellUnread(key, result);
    return result;
  }

  #tellUnread(key: LockKeys, result: unknown): void {
    this.#hasToldUnread = true;
    const { report } = this.#engine.inTransactions;
    report({ type: 'unread-result', key: String(key), result: describeValue(result) });
  }

  /**
   * Waits for the lock and returns it. Always release it, preferably with `await using`. Calls that ask for the same
   * key do not join it unless they are made inside `lock.run`.
   *
   * @throws LockNotAcquiredError if somebody else held it for `waitMs` · LockAbortedError if `signal` ended the wait ·
   * LockInTransactionError inside an open transaction, unless `insideTransaction` says otherwise
   */
  acquire(key: LockKeys, options?: LockOptions): Promise<Lock> {
    return LockService.#engineOf(this).acquire(key, options);
  }

  /**
   * Takes the lock if it is free now (or within `waitMs`, which is 0 here unless given).
   * @returns null if somebody else has it. If Redis does not answer, the call still rejects
   */
  tryAcquire(key: LockKeys, options?: LockOptions): Promise<Lock | null> {
    return LockService.#engineOf(this).tryAcquire(key, options);
  }

  /**
   * Goes on under a lock that another call has handed over with `lock.detach`, in this process or another one: as long
   * as its time (`forMs`) is not over, and once. It has the lease, the signal and the limits of a lock that was taken
   * here, a greater fencing token than before, and nobody else has had it in between. Without work, it is returned as
   * by `acquire`, and must be released.
   *
   * @example await locks.adopt(job.data.lock, (lock) => this.pack(job.data.order, lock.signal));
   * @param text what `detach` gave
   * @throws LockNotAdoptedError if its time is over, or somebody has adopted it before · LockStoreError if Redis does
   * not answer: whether it can still be adopted is then unknown · LockInTransactionError inside an open transaction ·
   * LockConfigError for any other text, or one of a service with another `keyPrefix`, and as `withLock`
   */
  adopt(text: string, options?: AdoptOptions): Promise<Lock>;
  /** The same for the time of the work, as with `withLock`. */
  adopt<T>(text: string, work: Work<T>): Promise<T>;
  /** The same, with options. */
  adopt<T>(text: string, options: AdoptOptions, work: Work<T>): Promise<T>;
  adopt<T>(
    text: string,
    optionsOrWork: AdoptOptions | Work<T> = {},
    work?: Work<T>,
  ): Promise<T | Lock> {
    const engine = LockService.#engineOf(this);
    if (work === undefined && typeof optionsOrWork !== 'function')
      return engine.adopt(text, optionsOrWork);
    return this.#adopt(engine, text, optionsOrWork, work);
  }

  async #adopt<T>(
    engine: LockEngine,
    text: string,
    optionsOrWork: AdoptOptions | Work<T>,
    work?: Work<T>,
  ): Promise<T> {
    const [options, run] =
      typeof optionsOrWork === 'function' && work === undefined
        ? [{}, optionsOrWork]
        : [optionsOrWork as AdoptOptions, work];
    assertIsFunction(run, 'locks.adopt(text, options, work)');
    let key = '';
    const result = await engine.withAdopted(text, options, (lock) => {
      ({ key } = lock); // in messages, because the text is for nobody else
      return (run as Work<T>)(lock);
    });
    return this.#checked(key, result);
  }

  /**
   * Makes this process a candidate for a task that one process must do at a time: the work runs while this process
   * holds the lock, and another process takes over when this one ends.
   *
   * When the lock is lost, the signal of the work aborts, and the process campaigns again once the work has ended. Work
   * that throws is logged, and runs again after a pause. Work that returns while it holds the lock resigns. The signal
   * also aborts when the application closes. The work runs outside the context of this call and its locks.
   *
   * @example this.locks.lead('mail-pump', (signal) => this.pump(signal)); // in onApplicationBootstrap
   * @returns at once; the campaign goes on until its `done` resolves
   * @throws LockConfigError for a wrong option, or if this service campaigns for the key already · LockKeyError ·
   * LockInTransactionError inside an open transaction · LockAbortedError while the application is closing
   */
  lead(key: string, work: LeaderWork): Leadership;
  /** The same, with options. */
  lead(key: string, options: LeadOptions, work: LeaderWork): Leadership;
  lead(key: string, optionsOrWork: LeadOptions | LeaderWork, work?: LeaderWork): Leadership {
    const engine = LockService.#engineOf(this);
    if (typeof optionsOrWork !== 'function') {
      // The types refuse undefined only under strictNullChecks.
      const options = optionsOrWork === undefined ? {} : optionsOrWork;
      return engine.lead(key, options, work as LeaderWork);
    }
    if (work === undefined) return engine.lead(key, {}, optionsOrWork);
    throw new LockConfigError(
      `Cannot campaign for ${shownValue(key)}: the options come before the work: lead(key, options, work)`,
    );
  }

  /**
   * The lock under which the calling code runs: that of the nearest enclosing `withLock`, `@Locked` or `lock.run`, or
   * of the nearest one that has this key. Undefined if there is none, or if it was released.
   *
   * A lost lock stays the current one until the work under it has ended: its `signal` has aborted, and its
   * `assertHeld()` throws. Before a write, call `assertHeld()` of this service: `current()?.assertHeld()` does nothing
   * where no lock is held.
   * @throws LockKeyError for an invalid key
   */
  current(key?: string): Lock | undefined {
    if (key !== undefined) assertLockKey(key);
    return LockService.#engineOf(this).current(key);
  }

  /**
   * Returns only if all locks under which the calling code runs are certainly held: that of the nearest enclosing
   * `withLock`, `@Locked` or `lock.run`, those around it, and those that an open transaction keeps. Code that goes on
   * after its work has ended runs under a lock that was released, and so it throws there. With a key, only the nearest
   * hold of that key counts. Reads the clock, no round trip.
   *
   * @example this.locks.assertHeld(); // right before what cannot be undone
   * @throws LockNotHeldError if no lock of this service is held here, or not that one · LockLostError if one was lost ·
   * LockStoreError if that is unknown, as with `Lock.assertHeld` · LockKeyError for an invalid key
   */
  assertHeld(...key: [] | [key: string]): void {
    if (key.length > 0) assertLockKey(key[0]); // undefined is a mistake, not the lock of any key
    LockService.#engineOf(this).assertHeld(key[0]);
  }

  /**
   * The key that `@Locked` would use, for `inspect` and `forceRelease`.
   *
   * @example locks.keyFor('stock:<id>', { id: '4:2' }) // 'stock:4%3A2'
   * @throws LockConfigError if it is not a template, has `#id` or the like for a value, or stands for several keys ·
   * LockKeyError if a value is missing or unfit
   */
  keyFor(template: string, values: object): string {
    const compiled = new KeyTemplate(template);
    if (compiled.placeholders.some(({ each }) => each !== undefined)) {
      throw new LockConfigError(
        `Cannot build one key from '${template}': [] stands for several keys; name a single value`,
      );
    }
    if (Object(values) !== values) {
      throw new LockKeyError(
        `Cannot build a lock key from '${template}': its values are ${describeValue(values)}; pass an object that has them, such as { id: 42 }`,
      );
    }
    compiled.assertFilledIn(({ root }) => Object.hasOwn(values, root));
    compiled.assertGiven(values);
    const [key] = compiled.render((root) => (values as Record<string, unknown>)[root]);
    return key as string;
  }

  /**
   * Measures how long Redis takes to answer, in milliseconds, for a health check. Rejects at once while Redis is known
   * to be away.
   *
   * @example await locks.ping(); // rejects with LockStoreError if Redis does not answer
   */
  ping(): Promise<number> {
    return LockService.#engineOf(this).ping();
  }

  /** For `nestjs-locked/terminus`; not part of the public contract. @hidden */
  [LOCK_HEALTH](): Promise<LockHealth> {
    return LockService.#engineOf(this).health();
  }

  /** For `nestjs-locked/dashboard`; not part of the public contract. @hidden */
  [LOCK_OVERVIEW](
    patterns: readonly string[],
    most: number,
  ): Promise<(LockOverview | LockKeyError)[]> {
    return LockService.#engineOf(this).overviews(patterns, most);
  }

  /** Who holds the key, as far as Redis knows. @returns null if nobody does */
  inspect(key: string): Promise<LockInfo | null> {
    return LockService.#engineOf(this).inspect(key);
  }

  /**
   * All keys that are held. It scans the whole keyspace of the Redis database, in small steps.
   * @param pattern for keys as the application writes them, without the `keyPrefix`, as in Redis' MATCH: `stock:*`.
   * @default all
   * @throws LockKeyError, at the first step, if it is not a string, begins with the `keyPrefix`, or has a brace or
   * `<`, which no key has
   */
  list(pattern = '*'): AsyncIterable<LockInfo> {
    return LockService.#engineOf(this).list(pattern);
  }

  /**
   * Who waits for whom: the calls that hold a lock which others want, and wait for another lock themselves, in every
   * process that answers within a second. It lists the held keys, as `list` does.
   * @param pattern as for `list`, for the keys that others want. @default all
   * @throws LockKeyError, as `list`
   */
  waits(pattern = '*'): Promise<readonly LockWait[]> {
    return LockService.#engineOf(this).waits(pattern);
  }

  /**
   * For operators: takes the key away from its holder. The holder's signal aborts with reason 'revoked', and the next
   * caller gets the key a second later. The signal of a holder in this process has aborted when this resolves.
   *
   * @param leaseId that of `inspect` or `list`: a lease that somebody has got since is left alone
   * @returns false if nobody held it, if it was already taken away within the last second, or if it has another lease
   * @throws LockKeyError for an invalid key, or for a lease id that is not a string
   */
  async forceRelease(key: string, ...leaseId: [] | [leaseId: string]): Promise<boolean> {
    const engine = LockService.#engineOf(this);
    if (leaseId.length === 0) return engine.forceRelease(key);
    const [id] = leaseId as [unknown];
    // Undefined is a mistake, and not every lease.
    if (typeof id === 'string') return engine.forceRelease(key, id);
    throw new LockKeyError(
      `Cannot release ${shownValue(key)}: the lease id is ${describeValue(id)}; pass the leaseId of inspect or list, or leave it out to take the key from whoever has it`,
    );
  }

  /** Keeps the internals out of printed services, which have this one as a property if they use `@Locked`. */
  [inspect.custom](): string {
    return 'LockService {}';
  }
}

function misuse(key: LockKeys, problem: string): LockConfigError {
  return new LockConfigError(`Cannot lock ${shownValue(key)}: ${problem}`);
}

function misused(key: LockKeys, problem: string): Promise<never> {
  return Promise.reject(misuse(key, problem));
}
