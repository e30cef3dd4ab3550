import { inspect, type InspectOptions } from 'node:util';
import { assertIsObject } from '../core/arguments.js';
import { LockConfigError } from '../core/lock.errors.js';
import { assertOptions, type OptionTable } from '../core/option.js';
import { describeValue } from '../core/runtime/shown-value.js';
import { ENGINE_FACTORY, type EngineFactory } from '../nest/module/engine-factory.js';
import { DEFAULT_KEY_PREFIX } from '../nest/module/module-option-table.js';
import { OPTIONS_TOKEN } from '../nest/module/redis-lock.module-definition.js';
import type { RedisLockModuleOptions } from '../nest/module/redis-lock.options.js';
import { assertTestLocks, makeEngine, TestLocks } from './test-locks.js';

/** What this needs of a `TestingModuleBuilder` of @nestjs/testing 11 and 12, on which the library does not depend. */
export interface OverridableProviders {
  /** As in @nestjs/testing. */
  overrideProvider(token: symbol): {
    /** Takes the place of the provider. */
    useValue(value: unknown): unknown;
  };
}

/** What `overrideLocks` takes besides the builder. */
export interface OverrideLocksOptions {
  /** Applications with the same object exclude each other, like instances that share one Redis. @default a new one */
  readonly locks?: TestLocks;
  /**
   * The options of every lock module, in place of those that the application gives. What the application has to make
   * them (`useFactory`, or the method of `useClass` and `useExisting`) is then not called: for an application whose
   * configuration is not there in a test. @default the application's own options
   */
  readonly options?: Omit<RedisLockModuleOptions, 'connection'>;
}

const OPTIONS: OptionTable<OverrideLocksOptions> = {
  locks: { check: assertTestLocks },
  options: { check: (_, value) => assertIsObject(value) },
};

/**
 * Runs a real application without Redis: all its lock modules keep their locks in memory, however they were imported
 * and whatever their names are. Call it before `compile()`.
 *
 * Nothing connects to Redis; `connection` is not even looked at. All other options stay in force, with the checks that
 * are made at start.
 *
 * @example
 * const builder = Test.createTestingModule({ imports: [AppModule] });
 * const locks = overrideLocks(builder);
 * const app = (await builder.compile()).createNestApplication();
 * @returns what tells the test who locked what, and decides what the application meets
 * @throws LockConfigError if it is not given a builder, or a wrong option
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
  assertOptions(OPTIONS, options);
  const { locks = new TestLocks(), options: ofModules } = options;
  const engineInMemory: EngineFactory = (
    { connection, keyPrefix = DEFAULT_KEY_PREFIX },
    supplies,
    Engine,
  ) => makeEngine(locks, { supplies, Engine, keyspace: `${serverName(connection)} ${keyPrefix}` });
  builder.overrideProvider(ENGINE_FACTORY).useValue(engineInMemory);
  if (ofModules !== undefined) {
    builder.overrideProvider(OPTIONS_TOKEN).useValue({ connection: 'redis://none', ...ofModules });
  }
  return locks;
}

const clients = new WeakMap<object, string>();
let known = 0;

/** The same text for the same URL, equal options or the same client; two clients count as two servers. */
function serverName(connection: unknown): string {
  if (!isClient(connection)) return inspect(connection, WHOLE);
  const name = clients.get(connection) ?? `#${++known}`;
  clients.set(connection, name);
  return name;
}

/** Not options, which a factory may make anew each time: they are the same if they say the same. */
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
