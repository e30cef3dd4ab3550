import { describe, expect, it } from '@jest/globals';
import type { Type } from '@nestjs/common';
import { parse } from 'node:querystring';
import {
  Locked,
  LockError,
  LockExceptionFilter,
  LockInterceptor,
  LockKeyError,
  LockService,
  RedisLockModule,
  type WithLockOptions,
} from '../../libs/nestjs-locked/src/index.js';
import { openRedis } from '../../libs/nestjs-locked/src/redis/connection/server/open-redis.js';
import {
  LockTestingModule,
  overrideLocks,
  TestLocks,
  withTestLocks,
} from '../../libs/nestjs-locked/src/testing/index.js';
import {
  createFenceTable,
  fenceTableSql,
  pruneFenceTable,
} from '../../libs/nestjs-locked/src/transactions/index.js';
import { whileBusy } from '../support/busy-lock.js';
import { startNest } from '../support/nest-app.js';

/** Objects without a prototype, and so without `toString`, as `querystring.parse` and `JSON` revivers make them. */
function bare<T extends object>(fields = {} as T): T {
  return Object.assign(Object.create(null) as T, fields);
}

const connection = 'redis://127.0.0.1:1';
const WORK = (): number => 5;

async function errorOf(action: () => unknown): Promise<unknown> {
  try {
    return await action();
  } catch (error) {
    return error;
  }
}

async function service(): Promise<LockService> {
  const app = await startNest({ imports: [LockTestingModule.forRoot(bare({ waitMs: 0 }))] });
  return app.get(LockService);
}

describe('options without a prototype', () => {
  it('are options like any others', async () => {
    const locks = await service();
    const options = bare({ waitMs: 0, label: 'x' });
    await (await locks.acquire('k', options)).release();
    await (await locks.tryAcquire('k', options))?.release();
    expect(await locks.withLock('k', options, WORK)).toBe(5);
    expect(locks.keyFor('stock:<id>', bare({ id: 4 }))).toBe('stock:4');
    expect(openRedis(bare({ host: 'localhost' })).client.options).toMatchObject({
      host: 'localhost',
      lazyConnect: true,
    });
    expect(fenceTableSql(bare({ dialect: 'mysql' as const }))).toContain('lock_fence');
    expect(() => new LockExceptionFilter(bare({ statuses: bare() }))).not.toThrow();
    expect(
      overrideLocks(
        { overrideProvider: () => ({ useValue: () => {} }) },
        bare({ options: bare({ waitMs: 0 }) }),
      ),
    ).toBeInstanceOf(TestLocks);

    class Stock {
      @Locked('stock:<id>', bare({ waitMs: 0, returns: 'promise' as const }))
      async take(id: string): Promise<string> {
        return id;
      }
    }
    expect(await withTestLocks(new Stock()).take('1')).toBe('1');
    expect(LockInterceptor('stock:<params.id>', bare({ waitMs: 0 }))).toBeDefined();
  });

  it('reach the module, from forRoot and from a factory', async () => {
    const options = bare({ connection, waitMs: -1, transactionTimeouts: bare({ idleMs: 5 }) });
    for (const imports of [
      [RedisLockModule.forRoot(options)],
      [RedisLockModule.forRootAsync(bare({ useFactory: () => options }))],
    ]) {
      await expect(startNest({ imports })).rejects.toThrow('Invalid option waitMs: -1 must be');
    }
  });
});

it('undefined options are those of the module, even while the lock is busy', async () => {
  const locks = await service();
  const passedOn = undefined as never;
  expect(await locks.withLock('k', passedOn, WORK)).toBe(5);
  await whileBusy(locks, 'k', async () => {
    const failure = await errorOf(() => locks.withLock('k', passedOn, WORK));
    expect(failure).toMatchObject({ code: 'LOCK_NOT_ACQUIRED' });
  });
});

describe('a value without a prototype', () => {
  const ofCalls = ['waitMs', 'leaseMs', 'maxHoldMs', 'renew', 'holdAtLeastMs', 'label'];
  const alsoOfCalls = ['reentrant', 'insideTransaction', 'signal', 'onBusy'];

  it.each([...ofCalls, ...alsoOfCalls])('is refused as %s of a call', async (name) => {
    const locks = await service();
    const wrong = bare({ [name]: bare() }) as WithLockOptions;
    const decorate = (): Type => {
      class Stock {
        @Locked('k', wrong)
        async take(): Promise<void> {}
      }
      return Stock;
    };
    const calls = [
      () => locks.acquire('k', wrong),
      () => locks.tryAcquire('k', wrong),
      () => locks.withLock('k', wrong, WORK),
      decorate,
      () => LockInterceptor('k', wrong),
    ];
    for (const call of calls) {
      expect(await errorOf(call)).toMatchObject({ code: 'LOCK_CONFIG_INVALID' });
    }
  });

  it.each([
    ...['connection', 'keyPrefix', 'startMs', 'startWithoutRedis', 'shutdownMs', 'fenceKeepMs'],
    ...['waitReplicas', 'waitMs', 'leaseMs', 'maxHoldMs', 'localHandovers', 'lingerMs'],
    ...['awaitRelease', 'failFastAfterMs', 'insideTransaction', 'name'],
  ])('is refused as %s of the module', async (name) => {
    const wrong = { connection, [name]: name === 'connection' ? [bare()] : bare() };
    const start = (): unknown => startNest({ imports: [RedisLockModule.forRoot(wrong)] });
    expect(await errorOf(start)).toMatchObject({ code: 'LOCK_CONFIG_INVALID' });
  });

  it.each<[string, object]>([
    ['fence.table', { fence: bare({ table: bare() }) }],
    ['fence.connections', { fence: bare({ connections: bare() }) }],
    ['fence.connections', { fence: bare({ connections: [bare()] }) }],
    ['transactionTimeouts.idleMs', { transactionTimeouts: bare({ idleMs: bare() }) }],
    ['waitReplicas.replicas', { waitReplicas: bare({ replicas: bare() }) }],
  ])('is refused as %s', async (name, wrong) => {
    const imports = [RedisLockModule.forRoot({ connection, ...wrong })];
    await expect(startNest({ imports })).rejects.toThrow(`Invalid option ${name}: an `);
  });

  it('is refused everywhere else', async () => {
    const locks = await service();
    const it = bare<never>();
    const lock = await locks.acquire('k');
    const calls: (() => unknown)[] = [
      () => locks.acquire(it),
      () => locks.tryAcquire([it]),
      () => locks.withLock(it, WORK),
      () => locks.withLock(it, {}, undefined as never),
      () => locks.inspect(it),
      () => locks.forceRelease(it),
      () => locks.keyFor(it, {}),
      () => locks.keyFor('stock:<id>', { id: it }),
      () => lock.ensureRemaining(it),
      () => Locked(it)({ constructor: Object }, 'take', { value: async () => {} }),
      () => Locked(it, 'method' as never),
      () => LockInterceptor(it),
      () => new LockExceptionFilter({ retryAfterSeconds: it }),
      () => new LockExceptionFilter({ statuses: { LOCK_LOST: it } }),
      () => fenceTableSql({ dialect: it }),
      () => fenceTableSql({ dialect: 'mysql', table: it }),
      () => createFenceTable(async () => {}, { dialect: it }),
      () => pruneFenceTable(async () => {}, { dialect: 'mysql', olderThanMs: it }),
      () => new TestLocks().advance(it),
    ];
    for (const call of calls) {
      const error = await errorOf(call);
      if (!(error instanceof LockError)) throw new Error(`${call.toString()}: ${String(error)}`);
    }
    await lock.release();
  });

  it.each([
    [null, 'null'],
    [undefined, 'undefined'],
    ['42', 'a string'],
  ])('is refused by locks.keyFor(), as other values are: %p', async (values, shown) => {
    const locks = await service();
    const build = (): unknown => locks.keyFor('a:<b>', values as never);
    expect(build).toThrow(LockKeyError);
    expect(build).toThrow(
      `Cannot build a lock key from 'a:<b>': its values are ${shown}; pass an object`,
    );
  });

  it('is refused in the place of a number, as in a query object', async () => {
    const locks = await service();
    const query: object = parse('waitMs=5');
    await expect(locks.acquire('k', query)).rejects.toThrow("Invalid option waitMs: '5' must be");
  });
});
