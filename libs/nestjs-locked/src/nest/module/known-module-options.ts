import type { LockServiceOptions } from '../../core/lock.options.js';
import type { RedisLockModuleExtras, RedisLockModuleOptions } from './redis-lock.options.js';

type Names<T> = Readonly<Record<keyof T, true>>;

/** What `RedisLockModule` reads besides the options of every lock service. */
export const OF_THE_MODULE: Names<Omit<RedisLockModuleOptions, keyof LockServiceOptions>> = {
  connection: true,
  keyPrefix: true,
  fenceKeepMs: true,
  waitReplicas: true,
  startMs: true,
  startWithoutRedis: true,
  shutdownMs: true,
};

const EXTRAS: Names<RedisLockModuleExtras> = { name: true, isGlobal: true };

/** What `forRootAsync` takes. */
export const OF_FOR_ROOT_ASYNC = {
  ...EXTRAS,
  imports: true,
  inject: true,
  useFactory: true,
  useClass: true,
  useExisting: true,
  provideInjectionTokensFrom: true,
} as const;

/** `forRoot` takes these out of the options. Where they are found later, a factory has returned them. */
export const NOT_FROM_A_FACTORY: Readonly<Record<string, string>> = Object.fromEntries(
  Object.keys(EXTRAS).map((name) => [
    name,
    'it must be known before the factory runs; write it beside useFactory, in forRootAsync',
  ]),
);
