import { describe, expect, it, jest } from '@jest/globals';
import { Injectable, StreamableFile } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import {
  InjectLockService,
  type Lock,
  LockConfigError,
  Locked,
  LockLostError,
  LockNotAcquiredError,
  LockService,
  LockStoreError,
} from 'nestjs-locked';
import { LockTestingModule, TestLocks, withTestLocks } from 'nestjs-locked/testing';
import { of, Subject } from 'rxjs';
import { AsyncLocalStorage } from 'node:async_hooks';
import { Duplex, Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import type { LockEvent } from '../../libs/nestjs-locked/src/core/lock-events.js';
import { resolveServiceOptions } from '../../libs/nestjs-locked/src/core/resolved.options.js';
import { LockService as ReportingService } from '../../libs/nestjs-locked/src/nest/lock.service.js';
import { InMemoryLockStore } from '../../libs/nestjs-locked/src/testing/in-memory-lock-store.js';
import { InMemoryLocks } from '../../libs/nestjs-locked/src/testing/in-memory-locks.js';
import { TestClock } from '../../libs/nestjs-locked/src/testing/test-clock.js';
import { ROOT } from '../api/markdown.js';
import { afterTest } from '../support/after-test.js';
import { runCommand } from '../support/run-command.js';
import { uniqueKey } from '../support/unique-key.js';

/** Its events are those that an application would log. */
function reportingLocks(): { locks: ReportingService; events: LockEvent[] } {
  const events: LockEvent[] = [];
  const engine = new LockEngine({
    store: new InMemoryLockStore(new InMemoryLocks(), 30_000),
    options: resolveServiceOptions({}),
    report: (event) => events.push(event),
  });
  return { locks: new ReportingService(engine), events };
}

const drained = Readable.from(['a']);
await drained.toArray();

const lockedStream = new ReadableStream();
lockedStream.getReader();

@Injectable()
class StockService {
  inside = 0;
  most = 0;

  @Locked('stock:<id>')
  async take(id: string): Promise<string> {
    this.inside += 1;
    this.most = Math.max(this.most, this.inside);
    await sleep(2);
    this.inside -= 1;
    return id;
  }
}

@Injectable()
class BillingService {
  constructor(@InjectLockService('billing') readonly locks: LockService) {}

  @Locked('bill:<id>', { service: 'billing' })
  async bill(id: string): Promise<string> {
    return Promise.resolve(id);
  }
}

async function callsAtOnce(stock: StockService, id: string): Promise<number> {
  await Promise.all([stock.take(id), stock.take(id), stock.take(id)]);
  return stock.most;
}

/** Not to be left behind: a lock that is held would be renewed during other tests. */
async function expectHeld(acquired: Promise<Lock | null> | undefined): Promise<void> {
  const lock = await acquired;
  expect(lock).toMatchObject({ isHeld: true });
  await lock?.release();
}

/** Until the end of the test: what could not be cleaned up would be tried again during other tests. */
function takeDown(locks: TestLocks): void {
  locks.storeDown();
  afterTest(() => locks.reset());
}

/** Work that continues until its lock is lost. */
function untilLost(locks: TestLocks, key: string, service?: string): Promise<unknown> {
  return locks
    .service(service)
    .withLock(
      key,
      (lock: Lock) =>
        new Promise((resolve) =>
          lock.signal.addEventListener('abort', () => resolve(lock.signal.reason)),
        ),
    );
}

describe('TestLocks.oppositeOrders', () => {
  it('has what the services of a test have nested in opposite orders, whether or not they have met', async () => {
    const locks = new TestLocks();
    const service = locks.service();
    const nest = (outer: string, inner: string) =>
      service.withLock(outer, { label: outer }, () =>
        service.withLock(inner, { label: inner }, () => {}),
      );
    await nest('stock:1', 'order:1');
    expect(locks.oppositeOrders).toEqual([]);
    await nest('order:2', 'stock:2');
    locks.reset();
    expect(locks.oppositeOrders).toEqual([
      [
        { held: 'order:*', heldBy: 'order:2', wanted: 'stock:*', wantedBy: 'stock:2' },
        { held: 'stock:*', heldBy: 'stock:1', wanted: 'order:*', wantedBy: 'order:1' },
      ],
    ]);
  });
});

describe('withTestLocks()', () => {
  it('lets a plain instance be called, one call at a time per key', async () => {
    const stock = withTestLocks(new StockService());
    expect(await callsAtOnce(stock, uniqueKey())).toBe(1);
  });

  it('gives instances with the same locks one lock service: a nested call joins', async () => {
    const locks = new TestLocks({ waitMs: 0 });
    const stock = withTestLocks(new StockService(), locks);
    class Orders {
      @Locked('stock:<id>')
      order(id: string): Promise<string> {
        return stock.take(id);
      }
    }
    expect(await withTestLocks(new Orders(), locks).order('a')).toBe('a');
    expect(locks.calls).toEqual([
      { by: 'Orders.order', keys: ['stock:a'], outcome: 'released' },
      { by: 'StockService.take', keys: ['stock:a'], outcome: 'released' },
    ]);
  });

  it('gives each method the lock service that it names', async () => {
    const locks = new TestLocks();
    const billing = withTestLocks(new BillingService(locks.service('billing')), locks);
    await billing.bill('a');
    const service = 'billing';
    expect(locks.calls).toEqual([
      { by: 'BillingService.bill', keys: ['bill:a'], outcome: 'released', service },
    ]);
  });

  it('refuses an instance without locked methods', () => {
    class Plain {}
    expect(() => withTestLocks(new Plain())).toThrow(LockConfigError);
    expect(() => withTestLocks(new Plain())).toThrow(
      'Cannot give test locks to Plain: it has no method with @Locked; pass an instance of the class',
    );
  });

  it.each<[string, () => unknown, string]>([
    [
      'an Observable',
      () => of(1),
      'an Observable, which would run after the lock has been released; return lastValueFrom(observable)',
    ],
    ['a Promise of one', async () => of(1), 'an Observable'],
    [
      'a generator',
      function* () {
        yield 1;
      },
      'a generator, which would run after the lock has been released; read it inside the work',
    ],
    [
      'an async generator',
      async function* () {
        yield 1;
      },
      'a generator',
    ],
    [
      'Promises that nobody has awaited',
      async () => ['a', 'b'].map(async () => Promise.reject(await sleep(5, new Error('unseen')))),
      'an array of Promises, which would run after the lock has been released; return Promise.all(…) of it',
    ],
  ])(
    'refuses work that returns %s, because it would run without the lock',
    async (_, work, what) => {
      const call = new TestLocks().service().withLock('k', work);
      await expect(call).rejects.toBeInstanceOf(LockConfigError);
      await expect(call).rejects.toThrow(`Cannot lock 'k': the work returned ${what}`);
    },
  );

  it.each([
    ['a Subject, which emits anyway', new Subject<number>()],
    [
      'a mock that has every member',
      new Proxy({}, { get: (_, name) => (name === 'then' ? undefined : jest.fn()) }),
    ],
    ['null', null],
    ['a list', [1]],
    ['an empty list', []],
    ['a Promise in a list, beside something else', [1, sleep(1)]],
    ['Promises that have settled', [Promise.resolve(1)]],
    ['a stream that was read', drained],
    ['a socket, which stays open', new Duplex({ read() {}, write() {} })],
    ['the response of a request', Object.assign(Readable.from(['a']), { httpVersion: '1.1' })],
    ['a web stream that somebody reads', lockedStream],
    ['a response', new Response('a')],
  ])('gives the caller %s', async (_, value: unknown) => {
    const { locks, events } = reportingLocks();
    expect(await locks.withLock('k', () => value)).toBe(value);
    expect(events).toEqual([]);
  });

  it.each<[string, object]>([
    ['Readable', Readable.from(['a'])],
    ['StreamableFile', new StreamableFile(Readable.from(['a']))],
    ['ReadableStream', new ReadableStream()],
    [
      'Pages',
      new (class Pages {
        async *[Symbol.asyncIterator]() {}
      })(),
    ],
  ])('reports once a result that is read without the lock: %s', async (name, value) => {
    const { locks, events } = reportingLocks();
    for (let call = 0; call < 2; call++) {
      expect(await locks.withLock('k', async () => Promise.resolve(value))).toBe(value);
    }
    expect(events).toEqual([{ type: 'unread-result', key: 'k', result: `an object (${name})` }]);
  });

  it('says how to call a method that was taken off the service', () => {
    const { withLock, current } = new TestLocks().service() as unknown as Record<
      'withLock' | 'current',
      (...args: unknown[]) => unknown
    >;
    for (const call of [() => withLock('k', () => 5), () => current()]) {
      expect(call).toThrow(LockConfigError);
      expect(call).toThrow(
        'Cannot use a method of LockService without its service, on undefined: call it as locks.withLock(…), and not as withLock(…)',
      );
    }
  });

  it.each([
    'assertHeld',
    'ensureRemaining',
    'fencingTokenOf',
    'release',
    'remainingMs',
    'run',
  ] as const)('says how to call a method that was taken off its lock: %s', async (name) => {
    await new TestLocks().service().withLock('k', (lock) => {
      const method = Reflect.get(lock, name) as () => unknown;
      expect(() => method()).toThrow(
        `Cannot use a method of Lock without its lock: call it as lock.${name}(…)`,
      );
    });
  });

  it('says how a call joins a lock that this process has acquired', async () => {
    const locks = new TestLocks().service();
    await using lock = await locks.acquire('k');
    const joined = lock.run(() => locks.withLock('k', { waitMs: 0 }, () => 5));
    expect(await joined).toBe(5);
    await expect(locks.withLock('k', { waitMs: 0 }, () => 5)).rejects.toThrow(
      '(this one; inside lock.run(…), a call joins a lock that it has acquired)',
    );
  });

  it.each([
    [{ Id: 1 }, "<id> is undefined: the object of values has no 'id'; did you mean 'Id'?"],
    [
      {},
      "<id> is undefined: the object of values has no 'id'; pass an object that has it, or correct the name",
    ],
    [{ id: undefined }, '<id> is undefined; pass a string, a finite number, a bigint or a boolean'],
  ])('keyFor with %j says what is missing', (values, problem) => {
    expect(() => new TestLocks().service().keyFor('stock:<id>', values)).toThrow(
      `Cannot build a lock key from 'stock:<id>': ${problem}`,
    );
  });

  it.each<[string, readonly unknown[], string]>([
    [
      'the work before the key',
      [() => 5, 'k'],
      'the key comes before the work: withLock(key, work)',
    ],
    ['no work', ['k'], "Cannot lock 'k': withLock needs a function to run, and not undefined"],
    [
      'the work, called',
      ['k', Promise.resolve()],
      'and not an object (Promise): withLock(key, () => …)',
    ],
    [
      'null instead of options',
      ['k', null, () => 5],
      'Invalid options: null must be an object of options: { waitMs, ',
    ],
  ])('refuses withLock with %s', async (_, args, message) => {
    const locks = new TestLocks().service();
    const call = locks.withLock.bind(locks) as (...args: unknown[]) => Promise<unknown>;
    await expect(call(...args)).rejects.toThrow(message);
  });

  it('refuses a class', () => {
    expect(() => withTestLocks(StockService)).toThrow(
      'the class StockService; pass an instance: withTestLocks(new StockService(…))',
    );
  });

  it.each([
    [null, 'null'],
    [undefined, 'undefined'],
  ])('refuses %p in the place of an instance', (instance, shown) => {
    const give = (): unknown => withTestLocks(instance as never);
    expect(give).toThrow(LockConfigError);
    expect(give).toThrow(`Cannot give test locks to ${shown}: it has no method with @Locked`);
  });

  it('refuses the locks in the place of the instance', () => {
    const give = (): unknown => withTestLocks(new TestLocks(), new StockService() as never);
    expect(give).toThrow(LockConfigError);
    expect(give).toThrow('takes the instance first, and then the TestLocks: withTestLocks(inst');
  });

  it.each([null, 5, {}])('refuses %p as locks', (locks) => {
    const give = (): unknown => withTestLocks(new StockService(), locks as never);
    expect(give).toThrow(LockConfigError);
    expect(give).toThrow(' must be a TestLocks; pass new TestLocks()');
  });
});

describe('LockTestingModule', () => {
  it('stands in for RedisLockModule, with and without a name', async () => {
    const locks = new TestLocks();
    const module = await Test.createTestingModule({
      imports: [
        LockTestingModule.forRoot({ locks }),
        LockTestingModule.forRoot({ name: 'billing', locks }),
      ],
      providers: [StockService, BillingService],
    }).compile();
    afterTest(() => module.close());
    await module.init();

    expect(await callsAtOnce(module.get(StockService), uniqueKey())).toBe(1);
    expect(await module.get(BillingService).bill('a')).toBe('a');
    expect(module.get(BillingService).locks).not.toBe(module.get(LockService));
    expect(locks.calls).toHaveLength(4);
  });

  it('uses the locks of the test: only applications that share them exclude each other', async () => {
    const start = async (locks?: TestLocks): Promise<LockService> => {
      const imports = [LockTestingModule.forRoot(locks === undefined ? {} : { locks })];
      const module = await Test.createTestingModule({ imports }).compile();
      afterTest(() => module.close());
      return (await module.init()).get(LockService);
    };
    const shared = new TestLocks();
    const [one, other, elsewhere] = await Promise.all(
      [shared, shared, new TestLocks(), undefined, undefined].map(start),
    );
    const lock = await one?.tryAcquire('k');
    expect(await other?.tryAcquire('k')).toBeNull();
    await expectHeld(elsewhere?.tryAcquire('k'));
    await lock?.release();
    await expectHeld(other?.tryAcquire('k'));
  });

  it('without locks of the test, uses those of the process', async () => {
    const imports = [LockTestingModule.forRoot()];
    const module = await Test.createTestingModule({ imports }).compile();
    afterTest(() => module.close());
    const key = uniqueKey();
    const stock = withTestLocks(new StockService());
    const lock = await (await module.init()).get(LockService).acquire(`stock:${key}`);
    const call = stock.take(key);
    expect(await Promise.race([call, sleep(50, 'waits')])).toBe('waits');
    await lock.release();
    expect(await call).toBe(key);
  });

  it('gives an instance its lock service after an application that mocked it with null', async () => {
    const [stock, locks] = [new StockService(), new TestLocks()];
    const testing = () =>
      Test.createTestingModule({
        imports: [LockTestingModule.forRoot({ locks })],
        providers: [{ provide: StockService, useValue: stock }],
      });
    const mocked = await testing().overrideProvider(LockService).useValue(null).compile();
    await mocked.init();
    await expect(stock.take('a')).rejects.toThrow('LockService is mocked');
    await mocked.close();
    const module = await testing().compile();
    afterTest(() => module.close());
    await module.init();
    expect(await stock.take('a')).toBe('a');
  });

  it('checks options as the real module does', async () => {
    const module = Test.createTestingModule({
      imports: [LockTestingModule.forRoot({ leaseMs: 1 })],
    });
    await expect(module.compile()).rejects.toThrow('Invalid option leaseMs: 1');
  });

  it.each(['connection', 'keyPrefix', 'isGlobal'])('has no use for %s', async (name) => {
    const lockModule = LockTestingModule.forRoot({ [name]: 'a' });
    const module = Test.createTestingModule({ imports: [lockModule] });
    await expect(module.compile()).rejects.toThrow(
      `Unknown option '${name}': leave it out: this module keeps the locks in memory, and is global`,
    );
  });

  it.each<[unknown, string]>([
    [5, 'Invalid options: 5 must be an object of options: { locks, name, waitMs, leaseMs, … }'],
    [new TestLocks(), 'LockTestingModule.forRoot takes options; pass the TestLocks as one: { loc'],
    [null, 'Invalid options: null must be an object'],
    [{ locks: {} }, 'Invalid option locks: an object must be a TestLocks of nestjs-locked/testing'],
    [{ locks: null }, 'Invalid option locks: null must be a TestLocks'],
  ])('refuses %j', (options, message) => {
    const make = (): unknown => LockTestingModule.forRoot(options as never);
    expect(make).toThrow(LockConfigError);
    expect(make).toThrow(message);
  });
});

describe('a mocked LockService', () => {
  it('keeps a locked method from running', async () => {
    const module = await Test.createTestingModule({ providers: [StockService] })
      .useMocker(() => ({ withLock: () => undefined }))
      .compile();
    const stock = module.get(StockService);
    await expect(stock.take('a')).rejects.toThrow(
      'LockService is mocked; use LockTestingModule or withTestLocks',
    );
    expect(stock.most).toBe(0);
  });

  it.each([null, undefined, 'none', 5])(
    'of %p lets the application start, but no locked method run',
    async (mock) => {
      const byFactory = { provide: 'stock', useFactory: () => new StockService() };
      const module = await Test.createTestingModule({
        imports: [LockTestingModule.forRoot()],
        providers: [StockService, byFactory],
      })
        .overrideProvider(LockService)
        .useValue(mock)
        .compile();
      afterTest(() => module.close());
      await module.init();
      for (const token of [StockService, 'stock']) {
        const stock = module.get<StockService>(token);
        const call = stock.take('a');
        await expect(call).rejects.toBeInstanceOf(LockConfigError);
        await expect(call).rejects.toThrow(
          'Cannot lock StockService.take: LockService is mocked; use LockTestingModule or withTes',
        );
        expect(stock.most).toBe(0);
      }
    },
  );
});

describe('TestLocks', () => {
  it('checks its options as the real module does', () => {
    expect(() => new TestLocks({ leaseMs: 1 })).toThrow('Invalid option leaseMs: 1');
  });

  describe('.calls', () => {
    it('list who requested which keys, in order, and with what outcome', async () => {
      const locks = new TestLocks({ waitMs: 0 });
      const service = locks.service();
      locks.hold('busy');
      const lock = await service.acquire(['b', 'a']);
      await service.withLock('c', async () => {
        expect(locks.calls.at(-1)).toEqual({ by: 'withLock', keys: ['c'], outcome: 'held' });
        await Promise.reject(new Error('of the work')).catch(() => {});
      });
      const failing = service.withLock('d', () => Promise.reject(new Error('of the work')));
      await expect(failing).rejects.toThrow('of the work');
      expect(await service.tryAcquire('busy')).toBeNull();
      await expect(service.acquire('busy')).rejects.toThrow(LockNotAcquiredError);
      expect(await service.withLock('busy', { onBusy: 'skip' }, () => 1)).toBeUndefined();
      expect(await service.withLock('busy', { onBusy: () => 2 }, () => 1)).toBe(2);
      await expect(service.acquire('busy', { waitMs: -1 })).rejects.toThrow(LockConfigError);
      const signal = AbortSignal.abort();
      await expect(service.acquire('e', { signal })).rejects.toMatchObject({
        code: 'LOCK_ABORTED',
      });
      const waiting = service.acquire('busy', { waitMs: 10_000 });
      expect(locks.calls).toEqual([
        { by: 'acquire', keys: ['b', 'a'], outcome: 'held' },
        { by: 'withLock', keys: ['c'], outcome: 'released' },
        { by: 'withLock', keys: ['d'], outcome: 'released' },
        { by: 'tryAcquire', keys: ['busy'], outcome: 'busy' },
        { by: 'acquire', keys: ['busy'], outcome: 'busy' },
        { by: 'withLock', keys: ['busy'], outcome: 'busy' },
        { by: 'withLock', keys: ['busy'], outcome: 'busy' },
        { by: 'acquire', keys: ['busy'], outcome: 'refused' },
        { by: 'acquire', keys: ['e'], outcome: 'aborted' },
        { by: 'acquire', keys: ['busy'], outcome: 'waiting' },
      ]);
      await lock.release();
      expect(locks.calls[0]).toEqual({ by: 'acquire', keys: ['b', 'a'], outcome: 'released' });
      locks.reset();
      await (await waiting).release();
      expect(locks.calls).toEqual([]);
    });

    it('do not change after they were read', async () => {
      const locks = new TestLocks();
      const lock = await locks.service().acquire('a');
      const { calls } = locks;
      await lock.release();
      expect(calls).toEqual([{ by: 'acquire', keys: ['a'], outcome: 'held' }]);
    });
  });

  describe('.hold()', () => {
    it('makes calls wait until it is released, then admits the first one', async () => {
      const locks = new TestLocks();
      const other = locks.hold('a');
      const entered: number[] = [];
      const calls = [1, 2].map((n) => locks.service().withLock('a', () => entered.push(n)));
      await locks.untilWaiting('a');
      expect(entered).toEqual([]);
      other.release();
      await Promise.all(calls);
      expect(entered).toEqual([1, 2]);
      other.release();
      expect(await locks.service().inspect('a')).toBeNull();
    });

    it('as a reader, lets readers in, and keeps out who wants the key alone', async () => {
      const locks = new TestLocks();
      const other = locks.hold('a', { mode: 'shared' });
      const another = locks.hold('a', { mode: 'shared' });
      expect(() => locks.hold('a')).toThrow('somebody else holds it already');
      const read = await locks.service().withLock('a', { mode: 'shared' }, () => 'read');
      expect(read).toBe('read');
      expect(await locks.service().tryAcquire('a')).toBeNull();
      other.release();
      expect(await locks.service().tryAcquire('a')).toBeNull();
      another.release();
      expect(() => locks.hold('b', { mode: 'read' as never })).toThrow("'exclusive' or 'shared'");
    });

    it('makes calls fail as busy when their time is over, and names the holder', async () => {
      const locks = new TestLocks();
      locks.hold('a', { label: 'nightly import' });
      const call = expect(locks.service().acquire('a')).rejects.toMatchObject({
        code: 'LOCK_NOT_ACQUIRED',
        message: expect.stringContaining('within 10000 ms: somebody else holds it'),
        holder: { label: 'nightly import' },
      });
      await locks.untilWaiting('a');
      await locks.advance(10_000);
      await call;
      expect(locks.calls).toMatchObject([{ outcome: 'busy' }]);
    });

    it('ends on its own after its time, like the lease of a process that has died', async () => {
      const locks = new TestLocks();
      locks.hold('a', { forMs: 3_000 });
      const call = locks.service().acquire('a');
      await locks.untilWaiting('a');
      await locks.advance(2_000);
      expect(locks.calls).toMatchObject([{ outcome: 'waiting' }]);
      await locks.advance(1_100);
      await expectHeld(call);
    });

    it('refuses a key that is held, and names the holder; a lease that lingers is given up', async () => {
      const locks = new TestLocks({ lingerMs: 30_000 });
      const lock = await locks.service().acquire('a');
      expect(() => locks.hold('a')).toThrow("Cannot hold 'a' as somebody else: acquire holds it");
      await lock.release();
      using other = locks.hold('a');
      expect(() => locks.hold('a')).toThrow('somebody else holds it already; call release()');
      expect(await locks.service().tryAcquire('a')).toBeNull();
      other.release();
      await expectHeld(locks.service().tryAcquire('a'));
    });

    it.each<[object | null, string]>([
      [{ forMS: 5 }, "Unknown option 'forMS': did you mean 'forMs'?"],
      [{ forMs: -1 }, 'Invalid option forMs: -1 must be a number of milliseconds, 0 or more'],
      [{ label: '' }, "Invalid option label: '' must be a string of 1 to 200 characters"],
      [null, 'Invalid options: null must be an object'],
    ])('refuses %j', (options, message) => {
      const locks = new TestLocks();
      expect(() => locks.hold('a', options as never)).toThrow(message);
      expect(() => locks.hold('a', options as never)).toThrow(LockConfigError);
    });

    it('refuses a key that another service holds in the same place', async () => {
      const locks = new TestLocks();
      const lock = await locks.service('billing').acquire('a');
      expect(() => locks.hold('a')).toThrow('acquire holds it already; hold it before that call');
      expect(lock.isHeld).toBe(true);
      await locks.lose('a');
      expect(lock.isHeld).toBe(false);
      await lock.release();
    });

    it('refuses an unknown lock service', () => {
      expect(() => new TestLocks().hold('a', { service: 'billing' })).toThrow(
        "Cannot find the lock service 'billing'",
      );
    });
  });

  it.each(['untilHeld', 'untilWaiting', 'lose'] as const)(
    '.%s() refuses an unknown option',
    async (method) => {
      const call = new TestLocks()[method]('a', { serivce: 'billing' } as never);
      await expect(call).rejects.toThrow("Unknown option 'serivce': did you mean 'service'?");
    },
  );

  describe('.lose()', () => {
    it('aborts the signal of the call that holds the key, and lets the next one in', async () => {
      const locks = new TestLocks();
      const lost = untilLost(locks, 'a');
      const next = locks.service().acquire('a');
      await locks.untilHeld('a');
      await locks.lose('a');
      expect(await lost).toBeInstanceOf(LockLostError);
      expect(await lost).toMatchObject({ reason: 'revoked', key: 'a' });
      await expectHeld(next);
      expect(locks.calls).toMatchObject([{ outcome: 'lost' }, { outcome: 'released' }]);
    });

    it('refuses a key that no call of the application holds', async () => {
      const locks = new TestLocks();
      await expect(locks.lose('a')).rejects.toThrow("Cannot take 'a' away: no call holds it");
      locks.hold('a');
      await expect(locks.lose('a')).rejects.toThrow(LockConfigError);
    });
  });

  describe('.storeDown()', () => {
    it('fails single tries at once, and waiting calls at the end of their time', async () => {
      const locks = new TestLocks();
      takeDown(locks);
      await expect(locks.service().tryAcquire('a')).rejects.toThrow(LockStoreError);
      const call = expect(locks.service().acquire('a')).rejects.toThrow(
        'the store is down: the test has called storeDown()',
      );
      await locks.untilWaiting('a');
      await locks.advance(10_000);
      await call;
      expect(locks.calls).toMatchObject([{ outcome: 'store-failed' }, { outcome: 'store-failed' }]);
    });

    it('fails calls at once even if the store was never up before', async () => {
      const locks = new TestLocks({ waitMs: 60_000 });
      takeDown(locks);
      await expect(locks.service().tryAcquire('a')).rejects.toThrow(LockStoreError);
      await locks.advance(20_000);
      await expect(locks.service().acquire('a')).rejects.toThrow('has been away for');
    });

    it('lets no message pass, so that calls learn of a free key when the store is up', async () => {
      const locks = new TestLocks();
      const other = locks.hold('a');
      const call = locks.service().acquire('a');
      await locks.untilWaiting('a');
      takeDown(locks);
      other.release();
      await locks.advance(0);
      expect(locks.calls).toMatchObject([{ outcome: 'waiting' }]);
      locks.storeUp();
      await locks.advance(30); // it checks after a short random time, so that not all processes do so at once
      expect(locks.calls).toMatchObject([{ outcome: 'held' }]);
      await expectHeld(call);
    });

    it('fails calls at once when the store has been away for failFastAfterMs, until it is up', async () => {
      const locks = new TestLocks();
      await locks.service().withLock('a', () => {});
      takeDown(locks);
      await locks.advance(20_000); // more than failFastAfterMs: a stall of this process does not count
      const failure = 'the lock store has been away for';
      await expect(locks.service().acquire('a')).rejects.toThrow(failure);
      await expect(locks.service('made later').ping()).rejects.toThrow(LockStoreError);
      locks.storeUp();
      await expectHeld(locks.service().acquire('a'));
      expect(await locks.service().ping()).toBeGreaterThanOrEqual(0);
    });

    it('fails queries of operators', async () => {
      const locks = new TestLocks();
      const service = locks.service();
      await service.withLock('a', () => 1);
      takeDown(locks);
      await expect(service.inspect('a')).rejects.toThrow(LockStoreError);
      await expect(service.forceRelease('a')).rejects.toThrow(LockStoreError);
      await expect(service.list()[Symbol.asyncIterator]().next()).rejects.toThrow(LockStoreError);
    });

    it('loses the locks that are held when their leases have run out', async () => {
      const locks = new TestLocks();
      const lost = untilLost(locks, 'a');
      await locks.untilHeld('a');
      takeDown(locks);
      await locks.advance(20_000);
      expect(locks.calls).toMatchObject([{ outcome: 'held' }]);
      await locks.advance(10_000);
      expect(await lost).toMatchObject({ reason: 'expired' });
      expect(locks.calls).toMatchObject([{ outcome: 'lost' }]);
    });

    it('keeps an application from starting', async () => {
      const locks = new TestLocks();
      const imports = [LockTestingModule.forRoot({ locks })];
      const module = await Test.createTestingModule({ imports }).compile();
      afterTest(() => module.close());
      takeDown(locks);
      await expect(module.init()).rejects.toThrow(LockStoreError);
    });

    it('ends with storeUp(): waiting calls get their lock, and held locks are still held', async () => {
      const locks = new TestLocks();
      const held = await locks.service().acquire('held');
      takeDown(locks);
      const call = locks.service().acquire('a');
      await locks.untilWaiting('a');
      await locks.advance(5_000);
      locks.storeUp();
      await expectHeld(call);
      await locks.advance(60_000);
      expect(held.isHeld).toBe(true);
      expect(await held.release()).toBe(true);
    });
  });

  describe('.advance()', () => {
    it('renews leases meanwhile, up to maxHoldMs', async () => {
      const locks = new TestLocks({ maxHoldMs: 120_000 });
      const lost = untilLost(locks, 'a');
      await locks.untilHeld('a');
      await locks.advance(119_000);
      expect(locks.calls).toMatchObject([{ outcome: 'held' }]);
      await locks.advance(1_000);
      expect(await lost).toMatchObject({ reason: 'max-hold' });
    });

    it('ends a fixed lease, and the time for which a key stays taken', async () => {
      const locks = new TestLocks({ waitMs: 0 });
      const service = locks.service();
      const lock = await service.acquire('fixed', { renew: false });
      await service.withLock('nightly', { holdAtLeastMs: 30_000 }, () => {});
      expect(await service.tryAcquire('nightly')).toBeNull();
      await locks.advance(30_000);
      expect(lock.isHeld).toBe(false);
      await expectHeld(service.tryAcquire('nightly'));
    });

    it('lets time pass in no async context, as real time does', async () => {
      const context = new AsyncLocalStorage<string>();
      const clock = new TestClock();
      const seen: unknown[] = [];
      clock.after(30_000, () => seen.push(context.getStore()));
      await context.run('test', () => clock.advance(30_000));
      expect(seen).toEqual([undefined]);
    });

    it('is optional: time advances by itself', async () => {
      const locks = new TestLocks({ waitMs: 30 });
      locks.hold('a');
      await expect(locks.service().acquire('a')).rejects.toThrow(LockNotAcquiredError);
      const stock = withTestLocks(new StockService(), locks);
      await locks.advance(60_000);
      locks.hold('stock:a');
      await expect(stock.take('a')).rejects.toThrow(LockNotAcquiredError);
    });

    it('leaves later events to the time that advances by itself', async () => {
      const locks = new TestLocks({ waitMs: 20_000 });
      locks.hold('a');
      const call = expect(locks.service().acquire('a')).rejects.toThrow(LockNotAcquiredError);
      await locks.advance(19_900);
      expect(locks.calls).toMatchObject([{ outcome: 'waiting' }]);
      await Promise.race([call, sleep(5_000, undefined, { ref: false })]);
      expect(locks.calls).toMatchObject([{ outcome: 'busy' }]);
    });

    it.each([-1, Infinity, NaN])('refuses %p', async (ms) => {
      await expect(new TestLocks().advance(ms)).rejects.toThrow(LockConfigError);
    });

    it("works with the test runner's own fake time", async () => {
      jest.useFakeTimers();
      afterTest(() => jest.useRealTimers());
      const locks = new TestLocks();
      locks.hold('a');
      const call = expect(locks.service().acquire('a')).rejects.toThrow(LockNotAcquiredError);
      await jest.advanceTimersByTimeAsync(10_000);
      await call;
      const second = expect(locks.service().acquire('a')).rejects.toThrow(LockNotAcquiredError);
      await locks.advance(10_000);
      await second;
      locks.hold('b').release();
      const other = locks.hold('b');
      const third = locks.service().acquire('b');
      await locks.untilWaiting('b');
      other.release();
      await expectHeld(third);
    });

    it('keeps the process alive for waiting calls, not for forgotten locks or candidates', async () => {
      const program = `
        import 'reflect-metadata';
        import { TestLocks } from 'nestjs-locked/testing';
        const locks = new TestLocks({ waitMs: 300 });
        locks.hold('a');
        await locks.service().acquire('a').catch(({ code }) => console.log(code));
        await locks.service().acquire('b', { leaseMs: 60_000 });
        locks.service().lead('a', async () => {});
        await locks.untilWaiting('a');
      `;
      const from = performance.now();
      const args = ['--input-type=module', '--eval', program];
      const { code, stdout } = await runCommand(process.execPath, args, ROOT);
      expect([code, stdout]).toEqual([0, 'LOCK_NOT_ACQUIRED\n']);
      expect(performance.now() - from).toBeLessThan(15_000); // the lease would be renewed after 20 s
    });
  });

  it('says what came instead if an awaited call does not come', async () => {
    const locks = new TestLocks();
    const acquired = locks.service().acquire('a');
    await expect(locks.untilWaiting('a')).rejects.toThrow(
      "No call for 'a' was waiting within 4 s: acquire (a): held",
    );
    await expectHeld(acquired);
  });
});

describe('the outcome of a call', () => {
  class Jobs {
    @Locked('job', {
      waitMs: 0,
      onBusy: () => {
        throw new TypeError('busy, says the application');
      },
    })
    async refusing(): Promise<void> {
      return Promise.resolve();
    }

    @Locked('job')
    async long(end: Promise<void>): Promise<void> {
      await end;
    }
  }

  it('is busy if its onBusy throws', async () => {
    const locks = new TestLocks();
    const jobs = withTestLocks(new Jobs(), locks);
    locks.hold('job');
    await expect(jobs.refusing()).rejects.toThrow('says the application');
    expect(locks.calls).toEqual([{ by: 'Jobs.refusing', keys: ['job'], outcome: 'busy' }]);
  });

  it('is still recorded after reset() while the call continues, so that its lock can be lost', async () => {
    const locks = new TestLocks();
    const jobs = withTestLocks(new Jobs(), locks);
    let end!: () => void;
    const long = jobs.long(new Promise((resolve) => (end = resolve)));
    await locks.untilHeld('job');
    locks.reset();
    await locks.lose('job');
    expect(locks.calls).toEqual([]);
    end();
    await long;
  });
});
