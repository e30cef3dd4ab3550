import { inspect, type InspectOptions } from 'node:util';
import { assertIsObject } from '../core/arguments.js';
import { DEFAULT_KEY_PREFIX } from '../core/keys/key-prefix.js';
import { LockConfigError } from '../core/lock.errors.js';
import { assertOptions, type OptionTable } from '../core/option.js';
import { SERVICE_OPTIONS } from '../core/option-tables.js';
import { describeValue } from '../core/runtime/shown-value.js';
import { ENGINE_FACTORY, type EngineFactory } from '../nest/module/engine-factory.js';
import { OPTIONS_TOKEN } from '../nest/module/redis-lock.module-definition.js';
import type { RedisLockModuleOptions } from '../nest/module/redis-lock.options.js';
import { DEFAULT_LOCKS } from './lock-testing.module.js';
import { assertTestLocks, makeEngine, TestLocks } from './test-locks.js';

/**
 * The part of `TestingModuleBuilder` of @nestjs/testing 11 and 12 that is used; the library does not depend on that
 * package.
 */
export interface OverridableProviders {
  /** As in @nestjs/testing. */
  overrideProvider(token: symbol): {
    /** Replaces the provider. */
    useValue(value: unknown): unknown;
  };
}

/** The options of `overrideLocks`. */
export interface OverrideLocksOptions {
  /** Applications with the same object exclude each other, like instances that share one Redis. @default a new one */
  readonly locks?: TestLocks;
  /**
   * Replaces the options of every lock module. The application's factory (`useFactory`, or the method of `useClass` and
   * `useExisting`) is then not called: for an application whose configuration is missing in tests. @default the
   * application's own options
   */
  readonly options?: Omit<RedisLockModuleOptions, 'connection'>;
}

const OPTIONS: OptionTable<OverrideLocksOptions> = {
  locks: { check: assertTestLocks },
  options: { check: (_, value) => assertIsObject(value, Object.keys(SERVICE_OPTIONS)) },
};

/**
 * Runs a real application without Redis: all its lock modules keep their locks in memory, however they are imported and
 * named. Call it before `compile()`: a later call is refused.
 *
 * Nothing connects to Redis, and `connection` is only compared. All other options stay in force, with the checks made
 * at start.
 *
 * @example
 * const builder = Test.createTestingModule({ imports: [AppModule] });
 * const locks = overrideLocks(builder);
 * const app = (await builder.compile()).createNestApplication();
 * @returns the locks, which record the calls and let the test control the locks
 * @throws LockConfigError if `builder` is not a builder or was compiled, or if an option is invalid
 */
export function overrideLocks(
  builder: OverridableProviders,
  options: OverrideLocksOptions = {},
): TestLocks {
  if (typeof builder?.overrideProvider !== 'function') {
    throw new LockConfigError(
      `overrideLocks cannot override the providers of ${describeValue(builder)}: pass it what Test.createTestingModule({ … }) gives, before compile()`,
    );
  }
  if (options instanceof TestLocks) {
    throw new LockConfigError(
      'overrideLocks takes options; pass the TestLocks as one: overrideLocks(builder, { locks })',
    );
  }
  assertOptions(OPTIONS, options);
  if (isCompiled(builder)) {
    throw new LockConfigError(
      'overrideLocks was called after compile(), which has made the locks of the application: call it before, right after Test.createTestingModule({ … })',
    );
  }
  const { locks = new TestLocks(), options: ofModules } = options;
  const engineInMemory: EngineFactory = (
    { connection, keyPrefix = DEFAULT_KEY_PREFIX },
    supplies,
    Engine,
  ) => makeEngine(locks, { supplies, Engine, keyspace: `${serverName(connection)} ${keyPrefix}` });
  builder.overrideProvider(ENGINE_FACTORY).useValue(engineInMemory);
  builder.overrideProvider(DEFAULT_LOCKS).useValue(locks);
  if (ofModules !== undefined) {
    builder.overrideProvider(OPTIONS_TOKEN).useValue({ connection: 'redis://none', ...ofModules });
  }
  return locks;
}

/** Nest tells nobody, but has the modules by then. */
function isCompiled(builder: object): boolean {
  const { container } = builder as {
    container?: { getModules?: () => ReadonlyMap<string, unknown> };
  };
  return (container?.getModules?.().size ?? 0) > 0;
}

const clients = new WeakMap<object, string>();
let known = 0;

/** The same name for the same URL, equal options or the same client; two clients count as two servers. */
function serverName(connection: unknown): string {
  if (!isClient(connection)) return inspect(connection, WHOLE);
  const name = clients.get(connection) ?? `#${++known}`;
  clients.set(connection, name);
  return name;
}

/** Options are compared by value, because a factory may create them each time; clients by identity. */
function isClient(connection: unknown): connection is object {
  if (typeof connection !== 'object' || connection === null) return false;
  const prototype: unknown = Object.getPrototypeOf(connection);
  return prototype !== null && Object.getPrototypeOf(prototype) !== null;
}

const WHOLE: InspectOptions = {
  depth: Infinity,
  maxArrayLength: Infinity,
  maxStringLength: Infinity,
  sorted: true,
};
