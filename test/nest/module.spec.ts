import { describe, expect, it } from '@jest/globals';
import {
  Controller,
  Get,
  Inject,
  Injectable,
  Module,
  Scope,
  UseInterceptors,
} from '@nestjs/common';
import { Redis } from 'ioredis';
import { Redis as Redis5 } from 'ioredis5';
import {
  InjectLockService,
  KeyParam,
  type Lock,
  LockConfigError,
  Locked,
  LockInterceptor,
  LockService,
  RedisLockModule,
  type RedisLockModuleOptions,
  type RedisLockOptionsFactory,
} from 'nestjs-locked';
import { setTimeout as sleep } from 'node:timers/promises';
import { lockServiceToken } from '../../libs/nestjs-locked/src/nest/decorator/lock-service.token.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { startNest } from '../support/nest-app.js';
import { useRedisServer } from '../support/own-redis.js';
import { uniqueKey } from '../support/unique-key.js';

/** A number that comes out right only if nobody interferes between reading and writing it. */
class Counter {
  value = 0;

  async add(): Promise<void> {
    const { value } = this;
    await sleep(1);
    this.value = value + 1;
  }
}

@Injectable()
class StockService {
  constructor(@Inject(Counter) private readonly counter: Counter) {}

  @Locked('stock:<id>')
  async take(@KeyParam('id') _id: string): Promise<void> {
    await this.counter.add();
  }
}

@Injectable()
class BillingService {
  constructor(@InjectLockService('billing') readonly locks: LockService) {}

  @Locked('bill:<id>', { service: 'billing' })
  async bill(@KeyParam('id') _id: string): Promise<string[]> {
    return this.keys();
  }

  keys: () => Promise<string[]> = () => Promise.resolve([]);
}

@Controller('stock/:id')
class InterceptedController {
  @Get()
  @UseInterceptors(LockInterceptor('stock:<params.id>'))
  take(): void {}
}

const server = useRedisServer();

/** Options that never resolve: for applications that cannot start and would leave a connection open. */
function never(): Promise<RedisLockModuleOptions> {
  return new Promise(() => {});
}

/** Calls `take` from all services at once; the counter shows whether they excluded each other. */
async function race(services: readonly StockService[], counter: Counter): Promise<void> {
  const id = uniqueKey();
  const calls = services.flatMap((service) => Array.from({ length: 10 }, () => service.take(id)));
  await Promise.all(calls);
  expect(counter.value).toBe(calls.length);
}

describe('RedisLockModule', () => {
  it('forRoot() makes @Locked exclude, within an application and between applications', async () => {
    const counter = new Counter();
    const apps = await Promise.all(
      [1, 2].map(() =>
        startNest({
          imports: [RedisLockModule.forRoot({ connection: server.url })],
          providers: [StockService, { provide: Counter, useValue: counter }],
        }),
      ),
    );
    await race(
      apps.map((app) => app.get(StockService)),
      counter,
    );
  });

  it('is the only way to make a LockService', () => {
    for (const wrong of [{}, null, undefined, 'engine', 5])
      expect(() => new LockService(wrong as object)).toThrow(LockConfigError);
    expect(() => new LockService({})).toThrow(
      'leave it out of providers, import RedisLockModule.forRoot(…)',
    );
  });

  it('forRootAsync() takes useFactory, useClass and useExisting', async () => {
    @Injectable()
    class Settings implements RedisLockOptionsFactory {
      readonly redis: RedisLockModuleOptions = { connection: server.url, keyPrefix: 'settings:' };

      createRedisLockOptions(): RedisLockModuleOptions {
        return this.redis;
      }
    }
    @Module({ providers: [Settings], exports: [Settings] })
    class SettingsModule {}
    const imports = [SettingsModule];
    const useFactory = (settings: Settings): RedisLockModuleOptions => settings.redis;

    for (const lockModule of [
      RedisLockModule.forRootAsync({ imports, inject: [Settings], useFactory }),
      RedisLockModule.forRootAsync({ useClass: Settings }),
      RedisLockModule.forRootAsync({ imports, useExisting: Settings }),
    ]) {
      const app = await startNest({ imports: [lockModule] });
      const key = uniqueKey();
      await app.get(LockService).withLock(key, async () => {
        expect(await server.admin.exists(`settings:{${key}}`)).toBe(1);
      });
    }
  });

  it('is global unless isGlobal is false', async () => {
    @Module({ providers: [StockService, Counter] })
    class StockModule {}
    await startNest({
      imports: [RedisLockModule.forRoot({ connection: server.url }), StockModule],
    });

    const elsewhere = RedisLockModule.forRootAsync({ isGlobal: false, useFactory: never });
    await expect(startNest({ imports: [elsewhere, StockModule] })).rejects.toThrow(
      'RedisLockModule.forRoot() (import it in the root module',
    );
    const here = RedisLockModule.forRoot({ connection: server.url, isGlobal: false });
    await startNest({ imports: [{ module: StockModule, imports: [here] }] });
  });

  it('says what to import when it is missing', async () => {
    await expect(startNest({ providers: [StockService, Counter] })).rejects.toThrow(
      /resolve dependencies of the StockService[^]*"Symbol\(RedisLockModule\.forRoot\(\) \(import it in the root module, with options and no name, or write the name of another as service in @Locked; if isGlobal is false, in this module, too; in tests LockTestingModule\.forRoot\(\)\)\)"/,
    );
    const unnamed = RedisLockModule.forRootAsync({ useFactory: never });
    await expect(startNest({ imports: [unnamed], providers: [BillingService] })).rejects.toThrow(
      "nestjs-locked/LockService(billing), from RedisLockModule.forRoot({ name: 'billing' }) (import it in the root module, with this name; ",
    );
    await expect(startNest({ controllers: [InterceptedController] })).rejects.toThrow(
      /resolve dependencies of the LockInterceptor\('stock:<params\.id>'\)[^]*Symbol\(nestjs-locked\/LockService, from RedisLockModule\.forRoot\(\) \(import it in the root module, with options and no name, or write the name of another as service in @Locked; /,
    );
  });

  it('gives each name a service of its own', async () => {
    const app = await startNest({
      imports: [
        RedisLockModule.forRoot({ connection: server.url }),
        RedisLockModule.forRoot({ name: 'billing', connection: server.url, keyPrefix: 'billing:' }),
      ],
      providers: [BillingService],
    });
    const billing = app.get(BillingService);
    expect(billing.locks).not.toBe(app.get(LockService));
    const id = uniqueKey();
    billing.keys = () => server.admin.keys(`*{bill:${id}}`);
    expect(await billing.bill(id)).toEqual([`billing:{bill:${id}}`]);
  });

  it('refuses two modules with the same name', async () => {
    const twice = [1, 2].map(() => RedisLockModule.forRoot({ connection: server.url }));
    const outcome = await startNest({ imports: twice }).then(
      () => 'started',
      (error: unknown) => error,
    );
    expect(outcome).toBeInstanceOf(LockConfigError);
    expect((outcome as Error).message).toMatch(
      /^Two lock modules provide nestjs-locked\/LockService: import .* once, .* or give each a name .*; in a test, LockTestingModule replaces it/,
    );
  });

  it('services exclude each other if they have the same prefix, even under different names', async () => {
    const app = await startNest({
      imports: ['same:', 'same:', 'other:'].map((keyPrefix, index) =>
        RedisLockModule.forRoot({ name: `service-${index}`, connection: server.url, keyPrefix }),
      ),
    });
    const [one, two, three] = [0, 1, 2].map((index) =>
      app.get<LockService>(lockServiceToken(`service-${index}`)),
    );
    const key = uniqueKey();
    await one?.withLock(key, async () => {
      expect(await two?.tryAcquire(key)).toBeNull();
      const lock = await three?.tryAcquire(key);
      expect(lock?.key).toBe(key);
      await lock?.release();
    });
  });
});

describe('instances that Nest makes in other ways', () => {
  it('request-scoped and transient providers are locked [D154]', async () => {
    @Injectable({ scope: Scope.REQUEST })
    class PerRequest extends StockService {}
    @Injectable({ scope: Scope.TRANSIENT })
    class Transient extends StockService {}
    const counter = new Counter();
    const app = await startNest({
      imports: [RedisLockModule.forRoot({ connection: server.url })],
      providers: [PerRequest, Transient, { provide: Counter, useValue: counter }],
    });
    const services = await Promise.all([
      app.resolve(PerRequest),
      app.resolve(PerRequest),
      app.resolve(Transient),
    ]);
    expect(new Set(services).size).toBe(3);
    await race(services, counter);
  });

  it('instances made by useFactory and useValue are locked', async () => {
    const counter = new Counter();
    const app = await startNest({
      imports: [RedisLockModule.forRoot({ connection: server.url })],
      providers: [
        { provide: 'made', useFactory: () => new StockService(counter) },
        { provide: 'given', useValue: new StockService(counter) },
      ],
    });
    await race([app.get('made'), app.get('given')], counter);
  });

  it('an instance that the application does not know refuses to run', async () => {
    const counter = new Counter();
    await expect(new StockService(counter).take('a')).rejects.toThrow(
      /this instance has no LockService: Nest did not create it, a factory created it for one request, or the call came too early \(in the constructor, [^]*; provide the class, [^]*withTestLocks\(new StockService/,
    );
    expect(counter.value).toBe(0);
  });
});

describe('connection', () => {
  const name = uniqueKey('client');

  it.each([
    ['ioredis 6', () => new Redis(server.url, { connectionName: name })],
    ['ioredis 5', () => new Redis5(server.url, { connectionName: name })],
  ])('uses a client of %s and leaves it unchanged [D143]', async (_, connect) => {
    const client = connect();
    afterTest(() => client.disconnect());
    await client.ping();
    const state = (): unknown => ({
      options: { ...client.options },
      listeners: client.eventNames().map((event) => [event, client.listenerCount(event)]),
      members: Object.keys(client),
    });
    const before = state();

    const app = await startNest({ imports: [RedisLockModule.forRoot({ connection: client })] });
    const key = uniqueKey();
    await app.get(LockService).withLock(key, async () => {
      expect(await server.admin.exists(`lock:{${key}}`)).toBe(1);
    });
    await app.close();

    expect(state()).toEqual(before);
    expect(await client.ping()).toBe('PONG');
  });

  it('takes a URL of Valkey', async () => {
    const connection = server.url.replace('redis:', 'valkey:');
    const app = await startNest({ imports: [RedisLockModule.forRoot({ connection })] });
    await expect(app.get(LockService).withLock(uniqueKey(), () => 'held')).resolves.toBe('held');
  });

  it('takes the options of a client, and closes what it opened', async () => {
    const connectionName = uniqueKey('own');
    const options = { host: '127.0.0.1', port: server.port, connectionName };
    const app = await startNest({ imports: [RedisLockModule.forRoot({ connection: options })] });
    const list = async (): Promise<string[]> =>
      String(await server.admin.call('CLIENT', 'LIST'))
        .split('\n')
        .filter(
          (line) => line.includes(`name=${connectionName} `) || line.includes('name=lock:inbox:'),
        );
    expect(await list()).toHaveLength(2);
    await app.close();
    await eventually(async () => expect(await list()).toEqual([]));
  });
});

describe('LockService', () => {
  it('withLock() passes a lock that is held and fenced, and that ends afterwards', async () => {
    const app = await startNest({ imports: [RedisLockModule.forRoot({ connection: server.url })] });
    const locks = app.get(LockService);
    const seen: Lock[] = [];
    const key = uniqueKey();
    for (let n = 0; n < 2; n++) {
      const result = await locks.withLock(key, (lock) => {
        expect(lock.isHeld).toBe(true);
        seen.push(lock);
        return n;
      });
      expect(result).toBe(n);
    }
    const [first, second] = seen as [Lock, Lock];
    expect(second.fencingToken).toBeGreaterThan(first.fencingToken);
    expect([first.isHeld, first.signal.aborted]).toEqual([false, false]);
  });

  it('a call that asks again for its own key joins itself, even in another service of the application', async () => {
    @Injectable()
    class Outer {
      constructor(@Inject(StockService) private readonly stock: StockService) {}

      @Locked('stock:<id>')
      async takeTwice(@KeyParam('id') id: string): Promise<void> {
        await this.stock.take(id);
        await this.stock.take(id);
      }
    }
    const counter = new Counter();
    const app = await startNest({
      imports: [RedisLockModule.forRoot({ connection: server.url })],
      providers: [Outer, StockService, { provide: Counter, useValue: counter }],
    });
    const id = uniqueKey();
    await Promise.all([app.get(Outer).takeTwice(id), app.get(StockService).take(id)]);
    expect(counter.value).toBe(3);
  });
});
