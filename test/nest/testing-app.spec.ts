import { describe, expect, it } from '@jest/globals';
import {
  type DynamicModule,
  Global,
  Injectable,
  Module,
  type ModuleMetadata,
  type Type,
} from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import { Redis } from 'ioredis';
import {
  InjectLockService,
  LockConfigError,
  Locked,
  LockService,
  LockStoreError,
  RedisLockModule,
  type RedisLockModuleOptions,
  type RedisLockOptionsFactory,
} from 'nestjs-locked';
import {
  LockTestingModule,
  overrideLocks,
  type OverrideLocksOptions,
  TestLocks,
} from 'nestjs-locked/testing';
import { createServer } from 'node:net';
import { ROOT } from '../api/markdown.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { runCommand } from '../support/run-command.js';

/** Nobody listens there, and a start that tried to connect would fail. */
const connection = 'redis://127.0.0.1:1';

const client = new Redis({ lazyConnect: true });
const otherClient = new Redis({ lazyConnect: true });

@Injectable()
class StockService {
  @Locked('stock:<id>')
  async take(id: string): Promise<string> {
    return Promise.resolve(id);
  }
}

@Injectable()
class BillingService {
  constructor(@InjectLockService('billing') readonly locks: LockService) {}

  @Locked('stock:<id>', { service: 'billing' })
  async bill(id: string): Promise<string> {
    return Promise.resolve(id);
  }
}

type Given = Partial<RedisLockModuleOptions>;

interface RunningApp {
  readonly module: TestingModule;
  readonly locks: TestLocks;
}

/** Runs the application as a test would; closed after the test. */
async function run(root: ModuleMetadata, options?: OverrideLocksOptions): Promise<RunningApp> {
  @Module(root)
  class AppModule {}
  const builder = Test.createTestingModule({ imports: [AppModule] });
  const locks = overrideLocks(builder, options);
  const module = await builder.compile();
  afterTest(() => module.close());
  await module.init();
  return { module, locks };
}

@Injectable()
class Config {
  lockOptions(): RedisLockModuleOptions {
    return { connection, waitMs: 0 };
  }
}

@Global()
@Module({ providers: [Config], exports: [Config] })
class ConfigModule {}

@Injectable()
class LockOptions implements RedisLockOptionsFactory {
  createRedisLockOptions(): RedisLockModuleOptions {
    return { connection, waitMs: 0 };
  }
}

@Module({ providers: [LockOptions], exports: [LockOptions] })
class LockOptionsModule {}

function feature(imports: DynamicModule[]): Type {
  @Module({ imports, providers: [StockService], exports: [StockService] })
  class StockModule {}
  return StockModule;
}

const useFactory = (config: Config): RedisLockModuleOptions => config.lockOptions();
const isGlobal = false;

describe('overrideLocks()', () => {
  it.each<[string, ModuleMetadata]>([
    ['forRoot', { imports: [RedisLockModule.forRoot({ connection, waitMs: 0 })] }],
    [
      'forRootAsync with useFactory',
      { imports: [ConfigModule, RedisLockModule.forRootAsync({ inject: [Config], useFactory })] },
    ],
    [
      'forRootAsync with useClass',
      { imports: [RedisLockModule.forRootAsync({ useClass: LockOptions })] },
    ],
    [
      'forRootAsync with useExisting',
      {
        imports: [
          RedisLockModule.forRootAsync({ imports: [LockOptionsModule], useExisting: LockOptions }),
        ],
      },
    ],
    [
      'a feature module whose locks are not global',
      { imports: [feature([RedisLockModule.forRoot({ connection, waitMs: 0, isGlobal })])] },
    ],
  ])('runs an application without Redis, and with its own options: %s', async (_, root) => {
    const providers = root.imports?.some((it) => 'module' in it) === true ? [StockService] : [];
    const { module, locks } = await run({ ...root, providers });
    const stock = module.get(StockService, { strict: false });
    expect(await stock.take('a')).toBe('a');
    locks.hold('stock:a');
    await expect(stock.take('a')).rejects.toThrow('was not acquired within 0 ms');
    expect(locks.calls).toEqual([
      { by: 'StockService.take', keys: ['stock:a'], outcome: 'released' },
      { by: 'StockService.take', keys: ['stock:a'], outcome: 'busy' },
    ]);
  });

  it('runs several lock modules, each with its own name and options', async () => {
    const { module, locks } = await run({
      imports: [
        RedisLockModule.forRoot({ connection, waitMs: 0, name: 'billing', keyPrefix: 'billing:' }),
        RedisLockModule.forRoot({ connection, waitMs: 0 }),
      ],
      providers: [StockService, BillingService],
    });
    locks.hold('stock:a', { service: 'billing' });
    expect(await module.get(StockService).take('a')).toBe('a');
    await expect(module.get(BillingService).bill('a')).rejects.toThrow('was not acquired');
    expect(locks.calls).toEqual([
      { by: 'StockService.take', keys: ['stock:a'], outcome: 'released' },
      { by: 'BillingService.bill', keys: ['stock:a'], outcome: 'busy', service: 'billing' },
    ]);
  });

  it.each<[string, Given, boolean, Given?]>([
    ['the same prefix and server exclude each other', {}, true],
    ['the default prefix, explicit or not, exclude each other', { keyPrefix: 'lock:' }, true],
    ['another prefix do not', { keyPrefix: 'billing:' }, false],
    ['another server do not', { connection: { host: 'elsewhere' } }, false],
    [
      'equal options exclude each other',
      { connection: { db: 1, host: 'here', retryStrategy: () => 1 } },
      true,
      { connection: { host: 'here', db: 1, retryStrategy: () => 1 } },
    ],
    [
      'other options do not',
      { connection: { host: 'here', tls: { servername: 'a' } } },
      false,
      { connection: { host: 'here', tls: { servername: 'b' } } },
    ],
    ['the same client exclude each other', { connection: client }, true, { connection: client }],
    ['clients of their own do not', { connection: client }, false, { connection: otherClient }],
  ])('services with %s', async (_, billing, isBusy, unnamed = {}) => {
    const { module, locks } = await run({
      imports: [
        RedisLockModule.forRoot({ connection, waitMs: 0, name: 'billing', ...billing }),
        RedisLockModule.forRoot({ connection: unnamed.connection ?? connection, waitMs: 0 }),
      ],
      providers: [BillingService],
    });
    locks.service(); // one of the test itself changes nothing
    locks.hold('a');
    const lock = await module.get(BillingService).locks.tryAcquire('a');
    expect(lock === null).toBe(isBusy);
    await lock?.release();
  });

  it('lets applications with the same locks exclude each other, and no others', async () => {
    const root = { imports: [RedisLockModule.forRoot({ connection, waitMs: 0 })] };
    const { module, locks } = await run(root);
    const replica = await run(root, { locks });
    const stranger = await run(root);
    const lock = await module.get(LockService).acquire('a');
    expect(await replica.module.get(LockService).tryAcquire('a')).toBeNull();
    await using other = await stranger.module.get(LockService).tryAcquire('a');
    expect(other).not.toBeNull();
    expect(replica.locks).toBe(locks);
    await lock.release();
  });

  it.each([
    ['a server', () => ({ host: 'here' })],
    ['clients', () => new Redis({ lazyConnect: true })],
  ])(
    'lets replicas exclude each other although their factory creates %s for each',
    async (_, make) => {
      const useFactory = (): RedisLockModuleOptions => ({ connection: make(), waitMs: 0 });
      const root = {
        imports: [RedisLockModule.forRootAsync({ name: 'billing', useFactory })],
        providers: [BillingService],
      };
      const { module, locks } = await run(root);
      await using lock = await module.get(BillingService).locks.acquire('a');
      const replica = await run(root, { locks });
      expect(await replica.module.get(BillingService).locks.tryAcquire('a')).toBeNull();
      expect(lock.isHeld).toBe(true);
    },
  );

  it('lets services of one server exclude each other, in whatever order applications bring them', async () => {
    const billing = RedisLockModule.forRoot({ connection, waitMs: 0, name: 'billing' });
    const root = { imports: [billing], providers: [BillingService] };
    const { module, locks } = await run(root);
    const lock = await module.get(BillingService).locks.acquire('a');
    const unnamed = RedisLockModule.forRoot({ connection, waitMs: 0 });
    const other = await run({ imports: [unnamed, billing] }, { locks });
    expect(await other.module.get(LockService).tryAcquire('a')).toBeNull();
    await locks.lose('a');
    expect(lock.isHeld).toBe(false);
    await lock.release();
  });

  it('never touches a connection, whatever it is', async () => {
    let connections = 0;
    const server = createServer(() => (connections += 1)).listen(0);
    afterTest(() => void server.close());
    const { port } = server.address() as { port: number };
    const client = new Redis({ port, lazyConnect: true });
    for (const given of [`redis://127.0.0.1:${port}`, { port }, client, undefined as never]) {
      const imports = [RedisLockModule.forRoot({ connection: given })];
      const { module } = await run({ imports, providers: [StockService] });
      expect(await module.get(StockService).take('a')).toBe('a');
    }
    expect(client.status).toBe('wait');
    expect(connections).toBe(0);
  });

  it.each([
    "RedisLockModule.forRoot({ connection: 'redis://127.0.0.1:1', waitMs: 0 })",
    'LockTestingModule.forRoot()',
  ])('works for an application that uses another copy of this package: %s', async (module) => {
    const program = `
      import 'reflect-metadata';
      import { Test } from '@nestjs/testing';
      import { overrideLocks } from 'nestjs-locked/testing';
      import { createRequire } from 'node:module';
      const require = createRequire(import.meta.url);
      const { LockService, RedisLockModule } = require('nestjs-locked');
      const { LockTestingModule } = require('nestjs-locked/testing');
      const imports = [${module}];
      const builder = Test.createTestingModule({ imports });
      const locks = overrideLocks(builder);
      const module = await (await builder.compile()).init();
      locks.hold('a');
      await module.get(LockService).tryAcquire('a');
      console.log(JSON.stringify(locks.calls));
      await module.close();
    `;
    const args = ['--input-type=module', '--eval', program];
    const { code, stdout, stderr } = await runCommand(process.execPath, args, ROOT);
    expect([code, stderr]).toEqual([0, '']);
    expect(JSON.parse(stdout)).toEqual([{ by: 'tryAcquire', keys: ['a'], outcome: 'busy' }]);
  });

  it.each<[unknown, string]>([
    [null, 'Invalid options: null must be an object'],
    [{ lock: new TestLocks() }, "Unknown option 'lock': did you mean 'locks'?"],
    [{ locks: {} }, 'Invalid option locks: an object must be a TestLocks of nestjs-locked/testing'],
    [{ options: 5 }, 'Invalid options: 5 must be an object of options: { waitMs, maxWaiters, '],
    [new TestLocks(), 'overrideLocks takes options; pass the TestLocks as one: overrideLocks(bu'],
  ])('refuses %p before it overrides anything', (options, message) => {
    let overridden = 0;
    const builder = { overrideProvider: () => ({ useValue: () => ++overridden }) };
    const override = (): unknown => overrideLocks(builder, options as never);
    expect(override).toThrow(LockConfigError);
    expect(override).toThrow(message);
    expect(overridden).toBe(0);
  });

  it('refuses anything but a builder, such as a compiled module', async () => {
    const module = await Test.createTestingModule({}).compile();
    for (const wrong of [module, undefined, 5]) {
      const override = (): unknown => overrideLocks(wrong as never);
      expect(override).toThrow(LockConfigError);
      expect(override).toThrow('gives, before compile()');
    }
  });

  it('refuses a builder that was compiled', async () => {
    const builder = Test.createTestingModule({});
    await builder.compile();
    const override = (): unknown => overrideLocks(builder);
    expect(override).toThrow(LockConfigError);
    expect(override).toThrow('overrideLocks was called after compile(), which has made the locks');
  });

  it('keeps the checks at start', async () => {
    const wrong = { imports: [RedisLockModule.forRoot({ connection, leaseMs: 1 })] };
    await expect(run(wrong)).rejects.toThrow('Invalid option leaseMs: 1');
    const fence = { imports: [RedisLockModule.forRoot({ connection, fence: {} })] };
    await expect(run(fence)).rejects.toThrow('Option fence');
    const twice = [
      RedisLockModule.forRoot({ connection }),
      RedisLockModule.forRoot({ connection }),
    ];
    await expect(run({ imports: twice })).rejects.toThrow(LockConfigError);
  });

  it('uses the options of the test if those of the application cannot be created', async () => {
    const missing = (): RedisLockModuleOptions => {
      throw new Error('REDIS_URL is not set');
    };
    const imports = [RedisLockModule.forRootAsync({ useFactory: missing })];
    await expect(run({ imports })).rejects.toThrow('REDIS_URL is not set');

    const options = { waitMs: 0 };
    const { module, locks } = await run({ imports, providers: [StockService] }, { options });
    locks.hold('stock:a');
    await expect(module.get(StockService).take('a')).rejects.toThrow('within 0 ms');
  });

  it('starts without Redis if the application may, and finds it later', async () => {
    const root = { imports: [RedisLockModule.forRoot({ connection, startWithoutRedis: true })] };
    const locks = new TestLocks();
    locks.storeDown();
    const { module } = await run(root, { locks });
    await expect(module.get(LockService).ping()).rejects.toThrow(LockStoreError);
    locks.storeUp();
    await eventually(async () => {
      await locks.advance(1_000);
      expect(await module.get(LockService).ping()).toBeGreaterThanOrEqual(0);
    });

    locks.storeDown();
    const strict = { imports: [RedisLockModule.forRoot({ connection })] };
    await expect(run(strict, { locks })).rejects.toThrow(LockStoreError);
  });

  it('closes as the application would: waits for work that holds a lock, and aborts it then', async () => {
    const { module, locks } = await run({
      imports: [RedisLockModule.forRoot({ connection, shutdownMs: 5_000 })],
    });
    const lost = module
      .get(LockService)
      .withLock(
        'a',
        ({ signal }) =>
          new Promise((resolve) => signal.addEventListener('abort', () => resolve(signal.reason))),
      );
    await locks.untilHeld('a');
    const closed = module.close();
    await locks.advance(4_400);
    expect(locks.calls).toMatchObject([{ outcome: 'held' }]);
    await locks.advance(600);
    await closed;
    expect(await lost).toMatchObject({ code: 'LOCK_LOST', reason: 'shutdown' });
  });

  it('gives its locks to a LockTestingModule that has none of its own', async () => {
    const own = new TestLocks();
    const { module, locks } = await run({
      imports: [
        LockTestingModule.forRoot(),
        LockTestingModule.forRoot({ name: 'billing', locks: own }),
      ],
      providers: [StockService, BillingService],
    });
    await module.get(StockService).take('a');
    await module.get(BillingService).bill('b');
    expect(locks.calls).toMatchObject([{ keys: ['stock:a'] }]);
    expect(own.calls).toMatchObject([{ keys: ['stock:b'] }]);
  });

  it('holds a key before the application is compiled, against work at its start', async () => {
    @Injectable()
    class Importer {
      result: string | undefined;
      constructor(@InjectLockService() private readonly service: LockService) {}

      async onApplicationBootstrap(): Promise<void> {
        const onBusy = (): string => 'left to another';
        this.result = await this.service.withLock('import', { onBusy }, () => 'done');
      }
    }
    const builder = Test.createTestingModule({
      imports: [RedisLockModule.forRoot({ connection, waitMs: 0 })],
      providers: [Importer],
    });
    overrideLocks(builder).hold('import');
    const module = await builder.compile();
    afterTest(() => module.close());
    await module.init();
    expect(module.get(Importer).result).toBe('left to another');
  });
});
