import { describe, expect, it } from '@jest/globals';
import { LockConfigError, RedisLockModule, type RedisLockModuleOptions } from 'nestjs-locked';
import { startNest } from '../support/nest-app.js';

/** Nothing listens here: a wrong option must be found before anything is opened. */
const connection = 'redis://127.0.0.1:1';

/** What is wrong, the options, and how the message begins. */
const WRONG: readonly [string, Record<string, unknown>, string][] = [
  [
    'a negative waitMs',
    { waitMs: -1 },
    'Invalid option waitMs: -1 must be a whole number of at least 0',
  ],
  [
    'a waitMs that is a text',
    { waitMs: '10' },
    "Invalid option waitMs: '10' must be a whole number",
  ],
  ['a waitMs that is not a number', { waitMs: NaN }, 'Invalid option waitMs: NaN must be'],
  [
    'a fractional leaseMs',
    { leaseMs: 1000.5 },
    'Invalid option leaseMs: 1000.5 must be a whole number',
  ],
  [
    'a leaseMs of 499',
    { leaseMs: 499 },
    'Invalid option leaseMs: 499 must be a whole number of at least 500',
  ],
  ['an endless leaseMs', { leaseMs: Infinity }, 'Invalid option leaseMs: Infinity must be'],
  ['negative localHandovers', { localHandovers: -1 }, 'Invalid option localHandovers: -1 must be'],
  ['a negative shutdownMs', { shutdownMs: -1 }, 'Invalid option shutdownMs: -1 must be'],
  ['a keyPrefix with braces', { keyPrefix: 'a{b}:' }, "Invalid option keyPrefix: 'a{b}:' must be"],
  ['a keyPrefix with a space', { keyPrefix: 'a b' }, "Invalid option keyPrefix: 'a b' must be"],
  ['a startMs of null', { startMs: null }, 'Invalid option startMs: null must be'],
  ['a keyPrefix of null', { keyPrefix: null }, 'Invalid option keyPrefix: null must be'],
  [
    'no connection',
    { connection: undefined },
    'Invalid option connection: undefined must be a URL',
  ],
  ['a connection of null', { connection: null }, 'Invalid option connection: null must be a URL'],
  [
    'a host without a scheme',
    { connection: 'redis:6379' },
    "Invalid option connection: 'redis:6379' must be a URL such as 'redis://localhost:6379'",
  ],
  [
    'an unknown insideTransaction',
    { insideTransaction: 'wait' },
    "Invalid option insideTransaction: 'wait' must be 'reject', 'restart' or 'join'",
  ],
  ['a fence that is a list', { fence: [] }, 'Invalid option fence: an array must be true, false'],
  ['a fence that is a word', { fence: 'on' }, "Invalid option fence: 'on' must be true, false or"],
  [
    'a fence table that is not a name',
    { fence: { table: 'a b' } },
    "Invalid option fence.table: 'a b' must be",
  ],
  [
    'a fractional time-out',
    { transactionTimeouts: { idleMs: 0.5 } },
    'Invalid option transactionTimeouts.idleMs: 0.5 must be whole milliseconds',
  ],
  [
    'a fence where no transaction is seen',
    { fence: {}, insideTransaction: 'restart' },
    'Option fence, transactionTimeouts, insideTransaction of RedisLockModule has no effect',
  ],
  ['an option of another library', { ttl: 5_000 }, "Unknown option 'ttl': did you mean 'leaseMs'?"],
  [
    'an option in another spelling',
    { waitms: 5 },
    "Unknown option 'waitms': did you mean 'waitMs'?",
  ],
  [
    'an option that resembles no known one',
    { quorum: 3 },
    "Unknown option 'quorum': there are waitMs, leaseMs, maxHoldMs, localHandovers,",
  ],
  [
    'an option of a call',
    { onBusy: 'skip' },
    "Unknown option 'onBusy': it is an option of a call, not of the module",
  ],
  [
    'an unknown option of the fence',
    { fence: { tabel: 'x' } },
    "Unknown option 'tabel': did you mean 'table'?",
  ],
  [
    'an unknown time-out',
    { transactionTimeouts: { idle: 5 } },
    "Unknown option 'idle': did you mean 'idleMs'?",
  ],
  [
    'a client of node-redis',
    { connection: { sendCommand() {}, duplicate() {}, on() {}, info() {}, eval() {} } },
    'Invalid option connection: a client of node-redis cannot be used; pass a URL',
  ],
  [
    'a client of GLIDE',
    { connection: { customCommand() {} } },
    'Invalid option connection: a client of Valkey GLIDE cannot be used; pass a URL',
  ],
  [
    'a cluster without nodes',
    { connection: { cluster: [] } },
    'Invalid option connection: cluster must be a list of nodes',
  ],
  [
    'a startWithoutRedis that is a text',
    { startWithoutRedis: 'yes' },
    'Invalid option startWithoutRedis',
  ],
  [
    'a fraction of a replica',
    { waitReplicas: 0.5 },
    'Invalid option waitReplicas: 0.5 must be a whole number of replicas from 0, or { replicas',
  ],
  ['a negative startMs', { startMs: -1 }, 'Invalid option startMs: -1 must be'],
  ['a number as connection', { connection: 6379 }, 'Invalid option connection: 6379 must be'],
];

describe('RedisLockModule options', () => {
  it.each(WRONG)('refuses %s before anything is opened [R7, R38]', async (_, wrong, message) => {
    const options = { connection, ...wrong } as RedisLockModuleOptions;
    const start = startNest({ imports: [RedisLockModule.forRoot(options)] });
    await expect(start).rejects.toThrow(message);
    await expect(start).rejects.toBeInstanceOf(LockConfigError);
  });

  it.each<[string, object, string]>([
    ['isGlobal as a text', { isGlobal: 'false' }, "isGlobal: 'false' must be true or false"],
    ['isGlobal of null', { isGlobal: null }, 'isGlobal: null must be true or false'],
  ])('refuses %s, which would make it global, before a module is made', (_, wrong, message) => {
    const useFactory = (): RedisLockModuleOptions => ({ connection });
    for (const make of [
      () => RedisLockModule.forRoot({ connection, ...wrong }),
      () => RedisLockModule.forRootAsync({ useFactory, ...wrong }),
    ]) {
      expect(make).toThrow(LockConfigError);
      expect(make).toThrow(`Invalid option ${message}`);
    }
  });

  it.each<[object, string]>([
    [{ useFactory: 5 }, 'Invalid option useFactory: 5 must be a function that returns the options'],
    [{ useFactory: null }, 'Invalid option useFactory: null must be a function'],
    [{ useClass: 'Settings' }, "Invalid option useClass: 'Settings' must be a class with a method"],
    [{ useExisting: 5 }, 'Invalid option useExisting: 5 must be a provided class'],
    [{ useFactory: () => ({}), inject: 'a' }, "Invalid option inject: 'a' must be a list"],
    [{ useFactory: () => ({}), imports: {} }, 'Invalid option imports: an object must be a list'],
    [{}, 'forRootAsync needs one of useFactory, useClass and useExisting: without them, nothing'],
    [{ inject: [] }, 'forRootAsync needs one of useFactory, useClass and useExisting: without'],
    [
      { useFactory: () => ({}), useClass: class {} },
      'forRootAsync needs one of useFactory, useClass and useExisting: of useFactory and useClass, only',
    ],
  ])('refuses %p of forRootAsync(), which returns no options', (options, message) => {
    const make = (): unknown => RedisLockModule.forRootAsync(options);
    expect(make).toThrow(LockConfigError);
    expect(make).toThrow(message);
  });

  it('accepts any injection token as useExisting', async () => {
    const token = Symbol('settings');
    const settings = { createRedisLockOptions: () => ({ connection, leaseMs: 1 }) };
    const module = { module: class {}, providers: [{ provide: token, useValue: settings }] };
    const imports = [{ ...module, exports: [token] }];
    const lockModule = RedisLockModule.forRootAsync({ imports, useExisting: token as never });
    await expect(startNest({ imports: [lockModule] })).rejects.toThrow('leaseMs: 1 must be');
  });

  it('refuses an empty name', () => {
    expect(() => RedisLockModule.forRoot({ connection, name: '' })).toThrow(
      "Invalid lock service name: ''",
    );
  });

  it.each([undefined, null, 'redis://localhost'])(
    'refuses %p in the place of options',
    (options) => {
      expect(() => RedisLockModule.forRoot(options as never)).toThrow(
        "RedisLockModule.forRoot needs options, such as { connection: 'redis://localhost:6379' }",
      );
      expect(() => RedisLockModule.forRootAsync(options as never)).toThrow(LockConfigError);
    },
  );

  it('refuses options that useFactory cannot decide, and unknown ones of forRootAsync()', async () => {
    const useFactory = (): RedisLockModuleOptions =>
      ({ connection, name: 'billing' }) as RedisLockModuleOptions;
    await expect(
      startNest({ imports: [RedisLockModule.forRootAsync({ useFactory })] }),
    ).rejects.toThrow("Unknown option 'name': it must be known before the factory runs");
    const loose = { useFactory: () => ({ connection }), waitMs: 5 };
    expect(() => RedisLockModule.forRootAsync(loose)).toThrow(
      "Unknown option 'waitMs': return it from useFactory",
    );
    const misspelt: object = { usefactory: () => ({ connection }) };
    expect(() => RedisLockModule.forRootAsync(misspelt)).toThrow("did you mean 'useFactory'?");
  });

  it('checks the options of forRootAsync() in the same way', async () => {
    const useFactory = (): RedisLockModuleOptions => ({ connection, leaseMs: 1 });
    await expect(
      startNest({ imports: [RedisLockModule.forRootAsync({ useFactory })] }),
    ).rejects.toThrow('Invalid option leaseMs: 1');
  });
});
