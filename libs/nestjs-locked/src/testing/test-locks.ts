import { LockEngine, type LockEngineOptions } from '../core/engine/lock-engine.js';
import { assertLockKey } from '../core/keys/lock-key.js';
import { LockConfigError } from '../core/lock.errors.js';
import type { LockServiceOptions } from '../core/lock.options.js';
import type { LockEvent, LockNesting } from '../core/lock-events.js';
import type { KeyTerms, LockMode } from '../core/lock-mode.js';
import {
  assertOptions,
  type Check,
  milliseconds,
  must,
  type OptionTable,
  withDefaults,
} from '../core/option.js';
import { arePermits, CALL_OPTIONS, PERMITS_ALLOWED } from '../core/option-tables.js';
import { assertPermits, resolveServiceOptions } from '../core/resolved.options.js';
import { shownValue } from '../core/runtime/shown-value.js';
import { leaseToken, processIdOf } from '../core/store/lease-token.js';
import { LockService } from '../nest/lock.service.js';
import { InMemoryLockStore, isOpenTo } from './in-memory-lock-store.js';
import type { InMemoryLocks } from './in-memory-locks.js';
import { InterruptibleStore, StoreLine } from './interruptible-store.js';
import { type LockCall, RecordedCalls } from './recorded-calls.js';
import { recordedEngine } from './recorded-engine.js';
import { ServiceKeyspaces } from './service-keyspaces.js';
import { settled } from './settled.js';
import { TestClock } from './test-clock.js';

/** Makes an engine with the locks of the test, for the entry points of this folder. */
export let makeEngine: (locks: TestLocks, wanted: WantedEngine) => LockEngine;

/** Makes locks that record no calls. */
export let makeUnrecorded: () => TestLocks;

/** Selects a lock service if an application has several. */
export interface ServiceOfTest {
  /** The `name` of its module. @default the service without a name */
  readonly service?: string;
}

/** The options of a key held by somebody else. */
export interface HoldOptions extends ServiceOfTest {
  /** 'shared': they only read, so that readers of the application are let in. @default 'exclusive' */
  readonly mode?: LockMode;
  /** They have one of so many permits, so that calls with permits are let in as long as there is one. @default none */
  readonly permits?: number;
  /** How many of the permits they have. @default 1 */
  readonly weight?: number;
  /** How long until the key is free again, in milliseconds, as after a crash. @default it is held until `release()` */
  readonly forMs?: number;
  /** What `LockNotAcquiredError.holder` and `inspect` show as the holder's label. @default none */
  readonly label?: string;
}

const SERVICE_OF_TEST: OptionTable<ServiceOfTest> = { service: {} };

const HOLD_OPTIONS: OptionTable<HoldOptions> = {
  ...SERVICE_OF_TEST,
  forMs: { default: Infinity, check: milliseconds },
  label: { check: CALL_OPTIONS.label.check },
  mode: {
    check: must("'exclusive' or 'shared'", (value) => value === 'exclusive' || value === 'shared'),
  },
  permits: { check: must(PERMITS_ALLOWED, arePermits) },
  weight: { check: CALL_OPTIONS.weight.check },
};

/** Somebody else who holds a key: to the application, another process. */
export interface OtherHolder extends Disposable {
  /** Releases the key; the call that has waited longest gets it. A second or late release does nothing. */
  release(): void;
}

interface WantedEngine {
  readonly supplies: Omit<LockEngineOptions, 'store' | 'clock'>;
  /** The class of the package copy that the application uses. @default the one that the test uses */
  readonly Engine?: typeof LockEngine;
  /** The keyspace of a service; services with the same keyspace exclude each other. @default that of unit tests */
  readonly keyspace?: string;
  /** Whether the service can be used for the first time while the store is down. @default false */
  readonly opensDown?: boolean;
}

/** How long a lease that somebody else hands over may take to be confirmed; irrelevant in memory. */
const OTHERS_LEASE_MS = 30_000;

/**
 * The locks of a test: kept in memory, and exclusive by the rules of the real ones. It records which calls requested
 * which keys, and lets the test simulate a key that somebody else holds, a lost lock, a store that is down, and the
 * passage of time.
 *
 * Services and applications with the same object exclude each other, like processes that share one Redis.
 *
 * @example
 * const locks = new TestLocks({ waitMs: 0 });
 * const stock = withTestLocks(new StockService(), locks);
 * locks.hold('stock:42');
 * await expect(stock.take('42')).rejects.toThrow(LockNotAcquiredError);
 */
export class TestLocks {
  readonly #options: LockServiceOptions;
  readonly #clock = new TestClock();
  readonly #line = new StoreLine();
  readonly #calls = new RecordedCalls((isWaiting) => (this.#clock.isWaitedFor = isWaiting));
  readonly #services = new Map<string | undefined, LockService>();
  readonly #keyspaces = new ServiceKeyspaces(this.#clock);
  readonly #processes = new Set<string>();
  readonly #others = new Set<OtherHolder>();
  readonly #opposite: (readonly LockNesting[])[] = [];

  /**
   * @param options for the services of unit tests, `service()` and `withTestLocks`. Modules have their own options
   * @throws LockConfigError
   */
  constructor(options: LockServiceOptions = {}) {
    resolveServiceOptions(options);
    this.#options = options;
  }

  // ---- what the application has done ------------------------------------------------------------------------

  /**
   * The calls that have requested a lock, in order, as plain objects.
   *
   * @example
   * expect(locks.calls).toEqual([
   *   { by: 'StockService.take', keys: ['stock:42'], outcome: 'released' },
   * ]);
   */
  get calls(): readonly LockCall[] {
    return this.#calls.snapshot();
  }

  /**
   * The rings of locks that calls have nested in opposite orders, so that two of them could wait for each other. Each
   * is found once, whether or not the calls have met, and `reset` keeps them.
   *
   * @example expect(locks.oppositeOrders).toEqual([]);
   */
  get oppositeOrders(): readonly (readonly LockNesting[])[] {
    return [...this.#opposite];
  }

  /**
   * Resolves when a call of the application holds the key.
   * @throws Error if there is none within four seconds
   * @throws LockKeyError for a key that no call can have · LockConfigError for a wrong option
   */
  async untilHeld(key: string, options: ServiceOfTest = {}): Promise<void> {
    assertLockKey(key);
    assertOptions(SERVICE_OF_TEST, options);
    await this.#calls.until('held', key, options.service);
  }

  /**
   * Resolves when a call of the application waits for the key.
   * @throws Error if there is none within four seconds
   * @throws LockKeyError for a key that no call can have · LockConfigError for a wrong option
   */
  async untilWaiting(key: string, options: ServiceOfTest = {}): Promise<void> {
    assertLockKey(key);
    assertOptions(SERVICE_OF_TEST, options);
    await this.#calls.until('waiting', key, options.service);
  }

  // ---- what the application meets ---------------------------------------------------------------------------

  /**
   * Somebody else holds the key: calls for it wait, and are busy when their `waitMs` is over.
   * @throws LockKeyError for a key that no call can have · LockConfigError if it is already held, if no module has
   * provided the service, or for an invalid option
   */
  hold(key: string, options: HoldOptions = {}): OtherHolder {
    assertLockKey(key);
    assertOptions(HOLD_OPTIONS, options);
    assertPermits(options);
    const { forMs, label, service } = withDefaults(HOLD_OPTIONS, options);
    const terms = termsOf(options);
    const locks = this.#locksOf(service);
    const by = this.#holderOf(key, service)?.by;
    if (by === undefined) this.#takeIdleLease(locks, key);
    const other = new InMemoryLockStore(locks, OTHERS_LEASE_MS);
    const token = leaseToken(other.processId, locks.clock.wallNow() * 1_000, false, label, terms);
    if (!isOpenTo(locks.entry(key).holders, token)) {
      throw new LockConfigError(
        `Cannot hold '${key}' as somebody else: ${by ?? 'somebody else'} holds it already; ${by === undefined ? 'call release() of what hold() returned, or reset()' : 'hold it before that call'}`,
        key,
      );
    }
    void other.acquire({ key, token, leaseMs: forMs, nowait: true });
    const release = (): void => {
      this.#others.delete(holder);
      void other.release({ key, token, used: 0 });
    };
    const holder: OtherHolder = { release, [Symbol.dispose]: release };
    this.#others.add(holder);
    return holder;
  }

  /**
   * Takes the key away from the call that holds it, or from all that read it: its `signal` has aborted with a
   * `LockLostError` ('revoked') when this resolves. The next waiting call gets the key. To simulate a lock that expires
   * because it could not be renewed, call `storeDown()` and `advance(leaseMs)`.
   * @throws LockKeyError for a key that no call can have · LockConfigError if no call of the application holds the key,
   * or for a wrong option
   */
  async lose(key: string, options: ServiceOfTest = {}): Promise<void> {
    assertLockKey(key);
    assertOptions(SERVICE_OF_TEST, options);
    const { service } = options;
    const locks = this.#locksOf(service);
    await settled();
    const { holders } = locks.entry(key);
    if (holders.length === 0 || this.#holderOf(key, service) === undefined) {
      throw new LockConfigError(
        `Cannot take '${key}' away: no call holds it; await untilHeld('${key}') first`,
        key,
      );
    }
    for (const { token } of holders) this.#takeAway(locks, key, token);
    await settled();
  }

  /**
   * Makes the store stop answering. A single try fails with `LockStoreError` at once, a waiting call after its
   * `waitMs`, and every new call at once after `failFastAfterMs`. Held locks are lost when their leases expire. An
   * application starts only with `startWithoutRedis`.
   */
  storeDown(): void {
    this.#line.cut();
  }

  /** Makes the store answer again: waiting calls ask it at once, and locks still held are renewed. */
  storeUp(): void {
    this.#line.mend();
  }

  /**
   * Moves the time of the locks forward without waiting: waits end, and leases are renewed or expire, in the order in
   * which they are due. The clock of the process and the timers of the application are unaffected.
   * @throws LockConfigError if it is not a number of milliseconds, 0 or more
   */
  async advance(ms: number): Promise<void> {
    if (!Number.isFinite(ms) || ms < 0) {
      throw new LockConfigError(
        `Cannot advance the time by ${shownValue(ms)} ms: it must be a number of milliseconds, 0 or more`,
      );
    }
    await this.#clock.advance(ms);
  }

  /**
   * Prepares the next test with the same application: forgets the calls, releases keys held by somebody else, and lets
   * the store answer again. Locks held by the application stay.
   */
  reset(): void {
    for (const other of this.#others) other.release();
    this.storeUp();
    this.#calls.forget();
  }

  // ---- services ---------------------------------------------------------------------------------------------

  /** The lock service of unit tests, to pass to a constructor; the same one for the same name. */
  service(name?: string): LockService {
    let service = this.#services.get(name);
    if (service === undefined) {
      const supplies = { name, options: resolveServiceOptions(this.#options), report: () => {} };
      service = new LockService(this.#makeEngine({ supplies, opensDown: true }));
      this.#services.set(name, service);
    }
    return service;
  }

  static {
    makeEngine = (locks, wanted) => locks.#makeEngine(wanted);
    makeUnrecorded = () => {
      const locks = new TestLocks();
      locks.#calls.keeps = false;
      return locks;
    };
  }

  #makeEngine({
    supplies,
    Engine = LockEngine,
    keyspace,
    opensDown = false,
  }: WantedEngine): LockEngine {
    const { name } = supplies;
    this.#keyspaces.add(name, keyspace);
    const memory = new InMemoryLockStore(() => this.#locksOf(name), supplies.options.leaseMs);
    this.#processes.add(memory.processId);
    const store = new InterruptibleStore(memory, this.#line, opensDown);
    const report = (event: LockEvent): void => {
      if (event.type === 'opposite-orders') this.#opposite.push(event.ring);
      supplies.report(event);
    };
    return recordedEngine(Engine, { ...supplies, report, store, clock: this.#clock }, this.#calls);
  }

  /** Looked up at each use of a key, because the service without a name may be created after the others. */
  #locksOf(service: string | undefined): InMemoryLocks {
    const locks = this.#keyspaces.locksOf(service);
    if (locks !== undefined) return locks;
    throw new LockConfigError(
      `Cannot find the lock service '${service}': no lock module of this test has that name, or the module is not compiled yet`,
    );
  }

  /** A call that holds the key, from this service or another one with the same keyspace. */
  #holderOf(key: string, service: string | undefined): LockCall | undefined {
    return [service, ...this.#keyspaces.servicesWith(this.#locksOf(service))]
      .map((other) => this.#calls.find('held', key, other))
      .find((call) => call !== undefined);
  }

  /** Takes away a lease that is only kept for the next call (`lingerMs`). */
  #takeIdleLease(locks: InMemoryLocks, key: string): void {
    for (const { token } of locks.entry(key).holders)
      if (this.#processes.has(processIdOf(token) ?? '')) this.#takeAway(locks, key, token);
  }

  #takeAway(locks: InMemoryLocks, key: string, token: string): void {
    locks.tellNow({ kind: 'revoked', key, token });
    void new InMemoryLockStore(locks, OTHERS_LEASE_MS).release({ key, token, used: 0 });
  }
}

function termsOf({ mode = 'exclusive', permits, weight = 1 }: HoldOptions): KeyTerms {
  if (permits === undefined) return { mode };
  return { mode: 'permit', permits, weight };
}

/** Any other object, even a TestLocks of another copy of this package, cannot make an engine. */
export const assertTestLocks: Check = must(
  'a TestLocks of nestjs-locked/testing; pass new TestLocks()',
  (value) => value instanceof TestLocks,
);
