import {
  type ConfigurableModuleAsyncOptions,
  type DynamicModule,
  type FactoryProvider,
  Logger,
} from '@nestjs/common';
import { isObject, isPromiseLike } from '../../core/arguments.js';
import { LockConfigError } from '../../core/lock.errors.js';
import { LOG_CONTEXT } from '../../core/log-context.js';
import { assertOptions } from '../../core/option.js';
import { describeValue } from '../../core/runtime/shown-value.js';
import { START_MS } from '../../redis/store-defaults.js';
import { ASYNC_OPTIONS, asyncAdviceForUnknown, EXTRA_OPTIONS } from './module-option-table.js';
import type { RedisLockModuleExtras, RedisLockModuleOptions } from './redis-lock.options.js';

export type ModuleOptions = RedisLockModuleOptions & RedisLockModuleExtras;

export type ModuleAsyncOptions = RedisLockModuleExtras &
  ConfigurableModuleAsyncOptions<RedisLockModuleOptions, 'createRedisLockOptions'>;

const OPTIONS = "{ connection: 'redis://localhost:6379' }";
const ASYNC = `{ useFactory: () => (${OPTIONS}) }`;
const MAKERS = ['useFactory', 'useClass', 'useExisting'] as const;

/** The error for an import of the class, which would provide no locks. */
export function importedWithoutOptions(): LockConfigError {
  return new LockConfigError(
    `RedisLockModule was imported without options, so that it provides no locks; write RedisLockModule.forRoot(${OPTIONS}), once, in the root module: the others need not import it`,
  );
}

/** @throws LockConfigError if there are no options, or if `name` or `isGlobal` is wrong */
export function assertModuleOptions(options: ModuleOptions): void {
  if (!isOptions(options)) {
    throw new LockConfigError(
      `RedisLockModule.forRoot needs options, not ${described(options)}; ${remedyFor(options)}`,
    );
  }
  const { name, isGlobal } = options;
  assertOptions(EXTRA_OPTIONS, { name, isGlobal });
}

/** @throws LockConfigError for a wrong option, or if it is not clear which provider makes the options */
export function assertModuleAsyncOptions(options: ModuleAsyncOptions): void {
  if (!isOptions(options)) {
    throw new LockConfigError(
      `RedisLockModule.forRootAsync needs options, not ${described(options)}; write forRootAsync(${ASYNC})`,
    );
  }
  const elsewhere = asyncAdviceForUnknown(Object.keys(options));
  assertOptions(ASYNC_OPTIONS, options, { elsewhere });
  const makers = MAKERS.filter((name) => options[name] !== undefined);
  if (makers.length > 1) {
    throw new LockConfigError(
      `RedisLockModule.forRootAsync was given ${makers.join(' and ')}, of which only one would be used; leave the others out`,
    );
  }
  if (makers.length === 0) {
    throw new LockConfigError(
      `RedisLockModule.forRootAsync was given ${namesIn(options)}, and nothing that makes the options; add a useFactory, such as ${ASYNC}, a useClass or a useExisting`,
    );
  }
  assertInjected(options);
}

function assertInjected({ useFactory, inject = [] }: ModuleAsyncOptions): void {
  const missing = inject.findIndex((token) => token === undefined || token === null);
  if (missing !== -1) {
    throw new LockConfigError(
      `RedisLockModule.forRootAsync: inject has ${describeValue(inject[missing])} at position ${missing}; perhaps two files import each other, or the name of the import is wrong`,
    );
  }
  if (useFactory === undefined || useFactory.length <= inject.length) return;
  const [takes, gets] = [counted(useFactory.length, 'parameter'), inject.length];
  throw new LockConfigError(
    `RedisLockModule.forRootAsync: useFactory has ${takes}, and inject ${gets === 0 ? 'is missing' : `lists only ${gets}`}, so that Nest would pass undefined; list a provider for each of them, as in inject: [ConfigService]`,
  );
}

/** Wraps the provider of the options, so that what its factory or class has made is checked. */
export function withCheckedOptions(
  definition: DynamicModule,
  token: symbol,
  options: ModuleAsyncOptions,
): DynamicModule {
  const { providers = [] } = definition;
  return {
    ...definition,
    providers: providers.map((provider) => {
      if (!isFactoryOf(token, provider)) return provider;
      return { ...provider, useFactory: checkedFactory(provider.useFactory, options) };
    }),
  };
}

type Factory = (...args: unknown[]) => unknown;

function isFactoryOf(token: symbol, provider: object): provider is FactoryProvider<unknown> {
  return 'provide' in provider && provider.provide === token && 'useFactory' in provider;
}

/** @returns a factory that rejects with LockConfigError if the given one has not made options */
function checkedFactory(make: Factory, options: ModuleAsyncOptions): Factory {
  return async (...args) => {
    const isFunction = options.useFactory !== undefined;
    const [settings] = args as [{ createRedisLockOptions?: unknown } | undefined];
    if (!isFunction && typeof settings?.createRedisLockOptions !== 'function') {
      throw new LockConfigError(
        `RedisLockModule.forRootAsync: ${describeValue(settings)} has no method createRedisLockOptions; add it, with the options as its result`,
      );
    }
    const maker = isFunction ? 'useFactory' : 'createRedisLockOptions';
    const made = await notForEver(make(...args), maker);
    if (isOptions(made)) return made;
    throw new LockConfigError(
      `RedisLockModule.forRootAsync: ${maker} returned ${described(made)}; it must return the options, ${exampleFor(made)}`,
    );
  };
}

/** Tells why an application does not start, because Nest waits for a factory without a word. */
async function notForEver(made: unknown, maker: string): Promise<unknown> {
  const timer = setTimeout(() => {
    new Logger(LOG_CONTEXT).warn(
      `RedisLockModule.forRootAsync: ${maker} has not returned the options for ${START_MS} ms, and the application starts only when it has; look for what it awaits`,
    );
  }, START_MS);
  return Promise.resolve(made).finally(() => clearTimeout(timer));
}

function exampleFor(made: unknown): string {
  if (made === undefined) return `such as ${OPTIONS}; a body in braces needs 'return'`;
  if (typeof made === 'string') return 'as in { connection: url }';
  return isObject(made) && isClient(made) ? 'as in { connection: client }' : `such as ${OPTIONS}`;
}

function described(value: unknown): string {
  return isObject(value) && isClient(value) ? 'a client of Redis' : describeValue(value);
}

/** False for what was meant as one of them: a client, a Promise, an array. */
function isOptions(value: unknown): value is object {
  return isObject(value) && !isClient(value) && !isPromiseLike(value);
}

function isClient(value: object): boolean {
  return typeof (value as { duplicate?: unknown }).duplicate === 'function';
}

function remedyFor(options: unknown): string {
  if (typeof options === 'string') return 'write forRoot({ connection: url })';
  if (typeof options === 'function') return `write forRootAsync(${ASYNC})`;
  if (!isObject(options)) return `write forRoot(${OPTIONS})`;
  if (isPromiseLike(options))
    return 'await it, or write forRootAsync({ useFactory: () => promise })';
  return 'write forRoot({ connection: client })';
}

/** The options that were given: `inject, useFactory (undefined)`. */
function namesIn(options: object): string {
  const names = Object.entries(options).map(([name, value]) =>
    value === undefined ? `${name} (undefined)` : name,
  );
  return names.length === 0 ? 'no options' : names.join(', ');
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}
