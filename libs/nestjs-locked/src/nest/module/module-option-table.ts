import type { ConfigurableModuleAsyncOptions } from '@nestjs/common';
import { assertKeyPrefix, DEFAULT_KEY_PREFIX } from '../../core/keys/key-prefix.js';
import type { LockServiceOptions } from '../../core/lock.options.js';
import { flag, must, type OptionTable, wholeNumber } from '../../core/option.js';
import { adviceForEach } from '../../core/option-advice.js';
import { SERVICE_OPTIONS } from '../../core/option-tables.js';
import { NO_COUNTERPART } from '../../core/resolved.options.js';
import { connectionOptionsIn } from '../../redis/connection/server/connection-options.js';
import { requiredReplicas } from '../../redis/connection/server/required-replicas.js';
import { FENCE_KEEP_MS, START_MS } from '../../redis/store-defaults.js';
import type { RedisLockModuleExtras, RedisLockModuleOptions } from './redis-lock.options.js';

const milliseconds = wholeNumber(0, 'milliseconds');

/** The options of `RedisLockModule` in addition to those of every lock service. */
export const MODULE_OPTIONS: OptionTable<Omit<RedisLockModuleOptions, keyof LockServiceOptions>> = {
  connection: {
    shownDefault: '',
    otherNames: [
      'redis',
      'client',
      'clients',
      'config',
      'url',
      'uri',
      'redisurl',
      'redisoptions',
      'store',
    ],
    text: 'URL, ioredis options, your ioredis client, or a [quorum](docs/quorum.md) ([fact 14](docs/behaviour.md#14-your-redis-client-stays-yours))',
  },
  keyPrefix: {
    default: DEFAULT_KEY_PREFIX,
    check: assertKeyPrefix,
    otherNames: ['prefix', 'namespace', 'lockkeyprefix'],
    text: 'Precedes every key and channel. Services with the same prefix exclude each other',
  },
  fenceKeepMs: {
    default: FENCE_KEEP_MS,
    check: milliseconds,
    text: "How long a Cluster keeps a key's fencing number after its lease; its clocks may be set back by as much",
  },
  layout: {
    default: 'nestjs-locked',
    check: must(
      "'nestjs-locked' or 'redisson'",
      (value) => value === 'nestjs-locked' || value === 'redisson',
    ),
    text: '`redisson`: locks are those of `RLock` in Java, on one server or with Sentinel ([Redisson](docs/redisson.md))',
  },
  waitReplicas: {
    default: 0,
    check: (_, value) => void requiredReplicas(value),
    text: 'How many replicas must have acknowledged a lease before it counts ([Redis](docs/redis.md#waitreplicas))',
  },
  renewFrom: {
    default: 'main',
    check: must("'main' or 'worker'", (value) => value === 'main' || value === 'worker'),
    text: '`worker`: a worker thread renews the leases while the event loop is blocked ([blocked event loops](docs/losing-a-lock.md#a-blocked-event-loop))',
  },
  startMs: {
    default: START_MS,
    check: milliseconds,
    text: 'How long the start waits for Redis ([start and shutdown](docs/shutdown.md))',
  },
  startWithoutRedis: {
    default: false,
    check: flag,
    text: '`true`: the application starts without Redis and keeps trying to connect',
  },
  shutdownMs: {
    default: 10_000,
    check: milliseconds,
    text: 'How long closing may take once the requests in flight have ended. Work that still holds locks gets all of it but the last second, or the last tenth if that is shorter',
  },
};

/** Options of `forRoot` and `forRootAsync` that must be known before a factory runs. */
export const EXTRA_OPTIONS: OptionTable<RedisLockModuleExtras> = {
  name: {
    shownDefault: 'none',
    check: must(
      "a string that is not empty, such as 'billing'; leave it out if there is one lock module",
      (value) => typeof value === 'string' && value !== '',
    ),
    otherNames: ['servicename'],
    text: 'Tells several lock services apart',
  },
  isGlobal: {
    default: true,
    check: flag,
    otherNames: ['global'],
    text: 'Whether other modules get the service without importing this one',
  },
};

/** The argument of `RedisLockModule.forRootAsync`. */
type AsyncOptions = RedisLockModuleExtras &
  ConfigurableModuleAsyncOptions<RedisLockModuleOptions, 'createRedisLockOptions'>;

const listOf = (what: string) => ({ check: must(`a list of ${what}`, Array.isArray) });

/** `useExisting` accepts any injection token, although its type requires a class. */
export const ASYNC_OPTIONS: OptionTable<AsyncOptions> = {
  ...EXTRA_OPTIONS,
  imports: listOf('modules, such as [ConfigModule]'),
  inject: listOf('providers, such as [ConfigService]'),
  useFactory: {
    check: must(
      "a function that returns the options, such as () => ({ connection: 'redis://localhost:6379' })",
      (value) => typeof value === 'function',
    ),
  },
  useClass: {
    check: must(
      'a class with a method createRedisLockOptions',
      (value) => typeof value === 'function' && 'prototype' in value,
    ),
  },
  useExisting: {
    check: must(
      'a provided class with a method createRedisLockOptions, or its injection token',
      (value) => ['function', 'string', 'symbol'].includes(typeof value),
    ),
  },
  provideInjectionTokensFrom: listOf('providers'),
};

const FROM_A_FACTORY: Readonly<Record<string, string>> = adviceForEach(
  Object.keys({ ...SERVICE_OPTIONS, ...MODULE_OPTIONS }),
  'return it from useFactory',
);

/**
 * Advice for unknown options of `forRootAsync`, which its factory has to return.
 * @param names of the options that were given
 */
export function asyncAdviceForUnknown(names: readonly string[]): Readonly<Record<string, string>> {
  const ofConnection = connectionOptionsIn(names);
  const fromFactory = `return it from useFactory: { connection: { ${ofConnection.join(', ')} } }`;
  return {
    ...adviceForEach(ofConnection, fromFactory),
    ...FROM_A_FACTORY,
    useValue: 'pass the value to forRoot',
  };
}

/** Advice for options of `forRootAsync` that were passed to `forRoot`, or returned by a factory. */
const FOR_ROOT_ASYNC: Readonly<Record<string, string>> = adviceForEach(
  Object.keys(ASYNC_OPTIONS),
  'it is an option of forRootAsync',
);

/** Advice for what is written in another way. */
const OTHERWISE: Readonly<Record<string, string>> = {
  ...NO_COUNTERPART,
  cluster: 'write connection: { cluster }',
  nodes: 'write connection: { cluster: nodes }',
  module: 'return the options themselves, without RedisLockModule.forRoot',
  settings: 'write its options beside connection',
};

/**
 * Advice for unknown options: they belong elsewhere, or nowhere.
 * @param names of the options that were given
 */
export function adviceForUnknown(names: readonly string[]): Readonly<Record<string, string>> {
  const ofConnection = connectionOptionsIn(names);
  const inConnection = `it is an option of ioredis: write connection: { ${ofConnection.join(', ')} }`;
  return {
    ...OTHERWISE,
    ...adviceForEach(ofConnection, inConnection),
    ...FOR_ROOT_ASYNC,
    ...NOT_FROM_A_FACTORY,
  };
}

/** Advice for options that a factory has returned but that belong beside it. */
const NOT_FROM_A_FACTORY: Readonly<Record<string, string>> = adviceForEach(
  Object.keys(EXTRA_OPTIONS),
  'it must be known before the factory runs; write it beside useFactory, in forRootAsync',
);
