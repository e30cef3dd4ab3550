import { describe, expect, it, jest } from '@jest/globals';
import { Redis } from 'ioredis';
import { LockConfigError, RedisLockModule, type RedisLockModuleOptions } from 'nestjs-locked';
import { afterTest } from '../support/after-test.js';
import { startNest } from '../support/nest-app.js';
import { RecordingLogger } from '../support/recording-logger.js';

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
  [
    'a lingerMs greater than leaseMs',
    { leaseMs: 5_000, lingerMs: 5_001 },
    'Invalid option lingerMs: 5001 must be at most leaseMs (5000), because a lease that nobody uses is not renewed; set',
  ],
  [
    'a lingerMs greater than the default leaseMs',
    { lingerMs: 60_000 },
    'Invalid option lingerMs: 60000 must be at most leaseMs (30000)',
  ],
  ['an endless leaseMs', { leaseMs: Infinity }, 'Invalid option leaseMs: Infinity must be'],
  ['negative localHandovers', { localHandovers: -1 }, 'Invalid option localHandovers: -1 must be'],
  [
    'a renewFrom that is no thread',
    { renewFrom: true },
    "Invalid option renewFrom: true must be 'main' or 'worker'",
  ],
  [
    'a worker thread with waitReplicas',
    { renewFrom: 'worker', waitReplicas: 1 },
    "renewFrom: 'worker' cannot be used with waitReplicas; use",
  ],
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
    'Option fence, insideTransaction of RedisLockModule has no effect',
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
    "Unknown option 'quorum': leave it out, or write one of connection, keyPrefix,",
  ],
  [
    'an option of a call',
    { onBusy: 'skip' },
    "Unknown option 'onBusy': it is an option of a call, not of the module; pass it there, after the key: { onBusy }",
  ],
  [
    'an unknown option of the fence',
    { fence: { tabel: 'x' } },
    "Unknown option 'fence.tabel': did you mean 'table'?",
  ],
  [
    'an unknown time-out',
    { transactionTimeouts: { idle: 5 } },
    "Unknown option 'transactionTimeouts.idle': did you mean 'idleMs'?",
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
  [
    'a variable that is not set',
    { connection: undefined },
    'an ioredis client; if a ConfigService or an environment variable has it, that variable is not',
  ],
  [
    'a duration as text',
    { waitMs: '10000' },
    'Infinity = no limit), and not a string; convert it with Number(…)',
  ],
  [
    'a duration with a unit',
    { waitMs: '10s' },
    "waitMs: '10s' must be a whole number of at least 0 (milliseconds; 0 = one try; Infinity = no limit), and not a string; write the number, without a unit",
  ],
  [
    'a number whose variable is not set',
    { leaseMs: NaN },
    'leaseMs: NaN must be a whole number of at least 500 (milliseconds; it is renewed while the work runs); is the variable set that',
  ],
  [
    'a prefix with braces',
    { keyPrefix: '{a}:' },
    "keyPrefix: '{a}:' must be a string without braces or white space, such as 'lock:'",
  ],
  [
    'a number as time-outs',
    { transactionTimeouts: 5 },
    'transactionTimeouts: 5 must be true, false or an object, such as { idleMs: 5000 }',
  ],
  [
    'a fence alone where no transaction is seen',
    { fence: true },
    'Option fence of RedisLockModule has no effect',
  ],
  [
    'another name of an option of the fence',
    { fence: { tableName: 'x' } },
    "Unknown option 'fence.tableName': did you mean 'table'?",
  ],
  [
    'options of ioredis beside connection',
    { connection: undefined, host: 'redis', port: 6379, leaseMs: 1_000 },
    "Unknown option 'host': it is an option of ioredis: write connection: { host, port }",
  ],
  [
    'a URL under its own name',
    { url: connection },
    "Unknown option 'url': did you mean 'connection'",
  ],
  ['a cluster beside connection', { cluster: [] }, "'cluster': write connection: { cluster }"],
  ['a factory', { useFactory: () => ({}) }, "'useFactory': it is an option of forRootAsync"],
  ['a whole module', { module: class {} }, "'module': return the options themselves"],
  ['retryCount', { retryCount: 3 }, "'retryCount': did you mean 'waitMs'?"],
  ['retryDelay', { retryDelay: 3 }, "'retryDelay': leave it out: a waiting call is told"],
  ['driftFactor', { driftFactor: 0.01 }, "'driftFactor': leave it out: "],
  [
    'refreshInterval',
    { refreshInterval: 3 },
    "'refreshInterval': leave it out: leases are renewed",
  ],
  ['lockKeyPrefix', { lockKeyPrefix: 'x' }, "'lockKeyPrefix': did you mean 'keyPrefix'?"],
  ['redisOptions', { redisOptions: {} }, "'redisOptions': did you mean 'connection'?"],
  [
    'ignoreUnlockFail',
    { ignoreUnlockFail: true },
    "'ignoreUnlockFail': leave it out: a release that",
  ],
];

/** What is wrong with `connection`, its value, and parts of the message. */
const WRONG_CONNECTIONS: readonly [string, unknown, string][] = [
  ['url', { url: connection }, "Unknown option 'connection.url': pass the URL itself"],
  ['hostname', { hostname: 'a' }, "Unknown option 'connection.hostname': did you mean 'host'?"],
  ['a typing error', { pasword: 'a' }, "'connection.pasword': did you mean 'password'?"],
  ['an option of nobody', { foo: 1 }, "'connection.foo': ioredis has no such option"],
  ['socket', { socket: { host: 'a' } }, "'connection.socket': write its options directly into"],
  ['nodes', { nodes: [] }, "'connection.nodes': for a Redis Cluster, write { cluster: [{ host"],
  [
    'a URL as host',
    { host: connection },
    "host: 'redis://127.0.0.1:1' must be a host name or an IP",
  ],
  [
    'host and port in one',
    { host: 'a:6379' },
    "host: 'a:6379' must be a host name or an IP address",
  ],
  ['no number as port', { host: 'a', port: NaN }, 'port: NaN must be a number from 1 to 65535; is'],
  ['a port that is none', { port: 70_000 }, 'port: 70000 must be a number from 1 to 65535'],
  [
    'a duration with a unit',
    { host: 'a', connectTimeout: '5s' },
    "connectTimeout: '5s' must be a number of milliseconds",
  ],
  ['a time for a function', { host: 'a', retryStrategy: 5 }, 'retryStrategy: 5 must be a function'],
  ['tls as text', { tls: 'false' }, "tls: 'false' must be an object, such as {}, or { ca }"],
  ['a path as ca', { tls: { ca: '/ca.pem' } }, 'tls.ca: a string of 7 characters must be the text'],
  ['a ca in one line', { tls: { ca: '-----BEGIN C\\nMII' } }, String.raw`tls.ca has '\n' as two`],
  [
    'sentinels without name',
    { sentinels: [{ host: 'a' }] },
    'sentinels need the name of their master',
  ],
  ['no sentinels', { sentinels: [], name: 'm' }, 'sentinels must be a list of servers, such as'],
  ['sentinels as text', { sentinels: ['a:1'], name: 'm' }, 'sentinels must be a list of servers'],
  [
    'a password beside nodes',
    { cluster: [{ host: 'a' }], password: 'b' },
    'write it in redisOptions',
  ],
  [
    'redisOptions as text',
    { cluster: [{}], redisOptions: 'a' },
    "redisOptions: 'a' must be an object",
  ],
  ['a wrong option of nodes', { cluster: [{}], redisOptions: { ssl: 1 } }, "did you mean 'tls'?"],
  [
    'a Cluster as its nodes',
    { cluster: {} },
    'a Cluster of ioredis is passed itself, as connection',
  ],
  ['an URL object', new URL(connection), 'an ioredis client; pass its text: url.href'],
  ['a Promise', Promise.resolve(connection), 'an ioredis client; await it, in an async useFactory'],
  ['a function', () => connection, 'a function must be …; pass what it makes: call it'],
  ['a list', [connection], 'an array must be …; for a Redis Cluster, pass { cluster: ['],
  ['what ioredis refuses', { replyMapping: 'resp3', protocol: 2 }, 'ioredis refuses it: '],
  ['a text that is not set', 'undefined', "'undefined' must be a URL …; the variable is not set"],
  ['an empty text', ' ', "' ' must be a URL …; it is empty: is its variable set?"],
  ['quotation marks', `"${connection}"`, 'remove the quotation marks in it'],
  ['white space', ` ${connection}`, 'remove the white space before it'],
  ['capital letters', 'REDIS://a', 'write its scheme in lower case'],
  ['a host', 'redis.internal', "write 'redis://redis.internal'"],
  ['host and port', 'redis.internal:6379', "write 'redis://redis.internal:6379'"],
  ['a path', '/run/redis.sock', "for a socket, write 'unix:///run/redis.sock'"],
  ['an URL of HTTP', 'https://app:secret@a', "'https://***@a' must be a URL …, not HTTP"],
  ['no scheme', 'app:secret@a:6379', "'***@a:6379' must be a URL …; write redis:// before it"],
  ['a URL of sentinels', 'redis-sentinel://a:26379/m', 'for Sentinel, pass { sentinels'],
  ['a URL of a cluster', 'redis-cluster://a:6379', 'for a Redis Cluster, pass { cluster'],
  ['several servers', 'redis://a:6379,b:6379', 'lists several servers; pass { cluster'],
  ['no host', 'redis://', "'redis://' names no host"],
  ['a part that is not set', 'redis://undefined:6379', "contains 'undefined': the variable for"],
  ['a port that is not set', 'redis://a:undefined', "contains 'undefined': the variable for"],
  ['a variable', 'redis://${REDIS_HOST}:6379', "contains '${REDIS_HOST}': the variable for that"],
  ['a variable as its port', 'redis://:a$b@host:$PORT', "contains '$PORT': the variable for"],
  ['# in a password', 'redis://app:secret#x@a', "'redis://***@a' cannot be read as a URL"],
  ['? in a password', 'redis://app:12?secret@a', "'redis://***@a' cannot be read as a URL"],
  ['% in a password', 'redis://app:50%secret@a', "'redis://***@a' cannot be read as a URL"],
  ['a fragment', 'redis://a:6379#x', "has a '#', and what follows would be ignored"],
  [
    'an unknown parameter',
    'redis://a?ssl=true',
    "has the parameter 'ssl', which a URL cannot have",
  ],
];

describe('RedisLockModule options', () => {
  it.each(WRONG)('refuses %s before anything is opened [R7, R38]', async (_, wrong, message) => {
    const options = { connection, ...wrong } as RedisLockModuleOptions;
    const start = startNest({ imports: [RedisLockModule.forRoot(options)] });
    await expect(start).rejects.toThrow(message);
    await expect(start).rejects.toBeInstanceOf(LockConfigError);
  });

  it.each(WRONG_CONNECTIONS)(
    'refuses a connection with %s, and says why',
    async (_, wrong, message) => {
      const lockModule = RedisLockModule.forRoot({ connection: wrong as never });
      const start = startNest({ imports: [lockModule] });
      await expect(start).rejects.toBeInstanceOf(LockConfigError);
      const error = await start.catch((reason: unknown) => reason as Error);
      for (const part of message.split('…')) expect((error as Error).message).toContain(part);
      expect((error as Error).message).not.toContain('secret');
    },
  );

  it.each<[string, unknown]>([
    ['a port as text', { host: '127.0.0.1', port: '1' }],
    ['null for what is not given', { host: '127.0.0.1', port: 1, password: null, tls: null }],
    ['an address of IP 6', { host: '::1', port: 1 }],
    ['tls: false', { host: '127.0.0.1', port: 1, tls: false }],
    ['an encoded password', 'redis://app:a%23b%40c@127.0.0.1:1/0'],
    ['parameters that a URL may have', `${connection}?family=4&connectionName=a`],
  ])('takes a connection with %s', async (_, right) => {
    const options = { connection: right as never, startMs: 0 };
    const start = startNest({ imports: [RedisLockModule.forRoot(options)] });
    await expect(start).rejects.toThrow(/^Cannot connect within/);
  });

  it.each<[string, object, string]>([
    [
      'isGlobal as a text',
      { isGlobal: 'false' },
      "isGlobal: 'false' must be true or false, and not a string; compare it: value === 'true'",
    ],
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
    [
      { useFactory: () => ({}), inject: 'a' },
      "Invalid option inject: 'a' must be a list of providers, such as [ConfigService]",
    ],
    [
      { useFactory: () => ({}), imports: {} },
      'Invalid option imports: an object must be a list of modules',
    ],
    [{ useClass: () => ({}) }, 'Invalid option useClass: a function must be a class with a method'],
    [{}, 'forRootAsync was given no options, and nothing that makes the options; add a useFactory'],
    [{ inject: [] }, 'forRootAsync was given inject, and nothing that makes the options; add a'],
    [{ useFactory: undefined }, 'forRootAsync was given useFactory (undefined), and nothing that'],
    [
      { useFactory: () => ({}), useClass: class {} },
      'forRootAsync was given useFactory and useClass, of which only one would be used',
    ],
    [
      { useFactory: (config: string) => ({ connection: config }) },
      'useFactory has 1 parameter, and inject is missing, so that Nest would pass undefined; list a provider for each of them, as in inject: [ConfigService]',
    ],
    [
      { inject: ['a'], useFactory: (a: string, b: string) => ({ connection: a + b }) },
      'useFactory has 2 parameters, and inject lists only 1, so that Nest would pass undefined',
    ],
    [
      { inject: ['a', undefined], useFactory: (a: string) => ({ connection: a }) },
      'inject has undefined at position 1; perhaps two files import each other',
    ],
    [{ useValue: { connection } }, "Unknown option 'useValue': pass the value to forRoot"],
    [
      { host: 'redis', port: 6379 },
      "Unknown option 'host': return it from useFactory: { connection: { host, port } }",
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

  it('tells why the application does not start while useFactory has not returned', async () => {
    jest.useFakeTimers();
    afterTest(() => void jest.useRealTimers());
    const logger = new RecordingLogger();
    let answer!: (options: RedisLockModuleOptions) => void;
    const useFactory = () => new Promise<RedisLockModuleOptions>((resolve) => (answer = resolve));
    const module = RedisLockModule.forRootAsync({ useFactory });
    const start = startNest({ imports: [module] }, logger);
    await jest.advanceTimersByTimeAsync(9_999);
    expect(logger.lines('nestjs-locked')).toEqual([]);
    await jest.advanceTimersByTimeAsync(1);
    expect(logger.lines('nestjs-locked')).toEqual([
      expect.stringContaining('useFactory has not returned the options for 10000 ms'),
    ]);
    answer({ connection, leaseMs: 1 });
    await expect(start).rejects.toThrow('leaseMs: 1 must be');
    expect(jest.getTimerCount()).toBe(0);
  });

  it.each<[string, unknown, string]>([
    ['undefined', undefined, "undefined; it must return the options, such as { connection: 'redis"],
    ['null', null, 'null; it must return the options'],
    ['a Promise of undefined', Promise.resolve(), "undefined; .*; a body in braces needs 'return'"],
    ['a URL', connection, 'a string; it must return the options, as in { connection: url }$'],
    [
      'a client',
      new Redis({ lazyConnect: true }),
      'a client of Redis; .*, as in { connection: client }$',
    ],
    ['another function', () => ({ connection }), 'a function; it must'],
  ])('refuses %s as the result of useFactory', async (_, result, message) => {
    const useFactory = (): never => result as never;
    const start = startNest({ imports: [RedisLockModule.forRootAsync({ useFactory })] });
    await expect(start).rejects.toThrow(new RegExp(`useFactory returned ${message}`));
    await expect(start).rejects.toBeInstanceOf(LockConfigError);
  });

  it('refuses a class that makes no options', async () => {
    class Nothing {}
    class Undefined {
      createRedisLockOptions(): void {}
    }
    for (const [useClass, message] of [
      [Nothing, 'an object (Nothing) has no method createRedisLockOptions'],
      [Undefined, 'createRedisLockOptions returned undefined; it must return the options'],
    ] as const) {
      const lockModule = RedisLockModule.forRootAsync({ useClass: useClass as never });
      await expect(startNest({ imports: [lockModule] })).rejects.toThrow(message);
    }
  });

  it('takes a factory with optional or default parameters', async () => {
    const useFactory = (url = connection, ...rest: unknown[]): RedisLockModuleOptions => ({
      connection: url,
      leaseMs: 1 + rest.length,
    });
    const start = startNest({ imports: [RedisLockModule.forRootAsync({ useFactory })] });
    await expect(start).rejects.toThrow('leaseMs: 1 must be');
  });

  it('refuses the class of the module without options', async () => {
    const start = startNest({ imports: [RedisLockModule] });
    await expect(start).rejects.toThrow(
      "RedisLockModule was imported without options, so that it provides no locks; write RedisLockModule.forRoot({ connection: 'redis://localhost:6379' })",
    );
    await expect(start).rejects.toBeInstanceOf(LockConfigError);
  });

  it('refuses an empty name', () => {
    expect(() => RedisLockModule.forRoot({ connection, name: '' })).toThrow(
      "Invalid option name: '' must be a string that is not empty, such as 'billing'",
    );
  });

  it.each<[unknown, string]>([
    [undefined, "undefined; write forRoot({ connection: 'redis://localhost:6379' })"],
    [null, 'null; write forRoot({ connection'],
    ['redis://app:secret@localhost', 'a string; write forRoot({ connection: url })'],
    [[{ connection }], 'an array; write forRoot({ connection'],
    [() => ({ connection }), 'a function; write forRootAsync({ useFactory: () => ({ connection'],
    [Promise.resolve({ connection }), 'an object (Promise); await it, or write forRootAsync'],
    [new Redis({ lazyConnect: true }), 'a client of Redis; write forRoot({ connection: client })'],
  ])('refuses %p in the place of options', (options, message) => {
    expect(() => RedisLockModule.forRoot(options as never)).toThrow(LockConfigError);
    expect(() => RedisLockModule.forRoot(options as never)).toThrow(
      `RedisLockModule.forRoot needs options, not ${message}`,
    );
    expect(() => RedisLockModule.forRootAsync(options as never)).toThrow(
      /^RedisLockModule\.forRootAsync needs options, not .*; write forRootAsync\(\{ useFactory/,
    );
  });

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
