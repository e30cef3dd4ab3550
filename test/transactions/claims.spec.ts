import { describe, expect, it } from '@jest/globals';
import {
  LockConfigError,
  LockInTransactionError,
  LockNotAcquiredError,
  type LockService,
} from 'nestjs-locked';
import { lockAware } from 'nestjs-locked/typeorm';
import { type DataSource, EntitySchema } from 'typeorm';
import { setTimeout as sleep } from 'node:timers/promises';
import { usePostgres } from '../support/databases.js';
import { makeGate } from '../support/gate.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';
import { openDataSource } from './data-source.js';
import { type StartedLocks, startLocks } from './locks.js';
import { useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);

const openAware = async (more: Parameters<typeof openDataSource>[3] = {}): Promise<DataSource> =>
  lockAware(await openDataSource('postgres', postgres.settings, 5, more));

const startFenced = (options: Parameters<typeof startLocks>[1] = {}): Promise<StartedLocks> =>
  startLocks(redis.url, { fence: {}, ...options });

/** The pool of node-postgres that TypeORM has for it. */
const poolOf = ({ driver }: DataSource): unknown => (driver as { master?: unknown }).master;

const ISOLATIONS = ['READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE'] as const;

describe('parallel transactions under one lock, with the fence on', () => {
  it.each(ISOLATIONS)('run one after the other at %s, however many they are', async (isolation) => {
    const dataSource = await openAware();
    const { locks } = await startFenced();
    await locks.withLock(stock.key, () =>
      Promise.all(
        Array.from({ length: 20 }, () =>
          dataSource.transaction(isolation, (manager) => stock.takeOne(manager)),
        ),
      ),
    );
    expect(await stock.quantity()).toBe(80);
  });

  it('wait without a connection', async () => {
    const dataSource = await openAware();
    const { locks } = await startFenced();
    await locks.withLock(stock.key, async () => {
      const begun = makeGate();
      const sales = Array.from({ length: 20 }, () =>
        dataSource.transaction(async (manager) => {
          await stock.takeOne(manager);
          begun.open();
          await sleep(20);
        }),
      );
      await begun.opened;
      expect(poolOf(dataSource)).toMatchObject({ waitingCount: 0, totalCount: 1 });
      await Promise.all(sales);
    });
    expect(await stock.quantity()).toBe(80);
  });

  it.each(ISOLATIONS)('run one after the other by hand, too, at %s', async (isolation) => {
    const dataSource = await openAware();
    const { locks } = await startFenced();
    const sell = async (): Promise<void> => {
      const runner = dataSource.createQueryRunner();
      await runner.startTransaction(isolation);
      await stock.takeOne(runner);
      await runner.commitTransaction();
      await runner.release();
    };
    await locks.withLock(stock.key, () => Promise.all(Array.from({ length: 12 }, sell)));
    expect(await stock.quantity()).toBe(88);
  });

  it('do not wait for each other for ever, if they do so inside', async () => {
    const dataSource = await openAware();
    const { locks } = await startFenced({ transactionTimeouts: false });
    const [first, second] = [dataSource.createQueryRunner(), dataSource.createQueryRunner()];
    await locks.withLock(stock.key, { leaseMs: 500, waitMs: 300 }, async () => {
      await first.startTransaction();
      await expect(second.startTransaction()).rejects.toBeInstanceOf(LockNotAcquiredError);
      await first.commitTransaction();
      await second.startTransaction();
      await second.commitTransaction();
    });
    await Promise.all([first.release(), second.release()]);
  });
});

describe('a claim that somebody else blocks', () => {
  /** An earlier holder's transaction that is still open. */
  const block = async (dataSource: DataSource, key: string): Promise<() => Promise<void>> => {
    const runner = dataSource.createQueryRunner();
    await runner.startTransaction();
    await runner.query('INSERT INTO lock_fence VALUES ($1, 1)', [key]);
    return async () => {
      await runner.rollbackTransaction();
      await runner.release();
    };
  };

  it('names all the keys that were claimed with it', async () => {
    const [dataSource, other] = await Promise.all([openAware(), openAware()]);
    const { locks } = await startFenced({ transactionTimeouts: { lockMs: 200 } });
    const keys = [uniqueKey('a'), uniqueKey('b')];
    const unblock = await block(other, keys[1] as string);
    const sale = locks.withLock(keys, () => dataSource.transaction(async () => {}));
    await expect(sale).rejects.toBeInstanceOf(LockNotAcquiredError);
    await expect(sale).rejects.toThrow(`The locks '${keys[0]}', '${keys[1]}' are ours`);
    await unblock();
  });

  it.each([
    ['wait for a lock', { lockMs: 200 }],
    ['statement', { statementMs: 200, lockMs: 0 }],
  ])(
    'as the second of its transaction says so and names its own key, by the limit of a %s',
    async (_, transactionTimeouts) => {
      const [dataSource, other] = await Promise.all([openAware(), openAware()]);
      const { locks } = await startFenced({ transactionTimeouts, insideTransaction: 'join' });
      const unblock = await block(other, stock.key);
      const sale = locks.withLock(uniqueKey('first'), () =>
        dataSource.transaction('READ COMMITTED', () => locks.withLock(stock.key, async () => {})),
      );
      await expect(sale).rejects.toMatchObject({
        code: 'LOCK_NOT_ACQUIRED',
        key: stock.key,
        message: expect.stringMatching(/still has the transaction of an earlier holder open/),
      });
      await unblock();
    },
  );
});

describe('a write beside the open transaction, under its lock', () => {
  const Stock = new EntitySchema<{ id: string; quantity: number }>({
    name: 'Stock',
    tableName: 'stock',
    columns: { id: { type: 'varchar', primary: true }, quantity: { type: 'int' } },
  });

  it('is refused if a repository opens a transaction of its own for it, and done by the one of the transaction', async () => {
    const dataSource = await openAware({ entities: [Stock] });
    const { locks } = await startFenced();
    await locks.withLock(stock.key, () =>
      dataSource.transaction(async (manager) => {
        const piece = { id: stock.product, quantity: 7 };
        const beside = dataSource.getRepository(Stock).save(piece);
        await expect(beside).rejects.toBeInstanceOf(LockInTransactionError);
        await expect(beside).rejects.toThrow(/its own manager, because a plain repository\.save/);
        await manager.getRepository(Stock).save(piece);
      }),
    );
    expect(await stock.quantity()).toBe(7);
    await locks.withLock(stock.key, () =>
      dataSource.getRepository(Stock).save({ id: stock.product, quantity: 8 }),
    );
    expect(await stock.quantity()).toBe(8);
  });
});

describe('two data sources of one database, under one lock', () => {
  it('are refused at once one inside the other, if they have one name', async () => {
    const [outer, inner] = await Promise.all([openAware(), openAware()]);
    const { locks } = await startFenced();
    const sale = locks.withLock(stock.key, () =>
      outer.transaction(() => inner.transaction((manager) => stock.takeOne(manager))),
    );
    await expect(sale).rejects.toThrow(/has claimed the same key in the same database/);
    expect(await stock.quantity()).toBe(100);
  });
});

describe('a transaction that cannot be claimed as it is', () => {
  const sell = (dataSource: DataSource, locks: LockService): Promise<void> =>
    locks.withLock(stock.key, () => dataSource.transaction((manager) => stock.takeOne(manager)));

  it('because it is read-only says so, with the ways out', async () => {
    const dataSource = await openAware({
      extra: { options: '-c default_transaction_read_only=on' } as never,
    });
    const { locks } = await startFenced();
    const sale = sell(dataSource, locks);
    await expect(sale).rejects.toBeInstanceOf(LockConfigError);
    await expect(sale).rejects.toThrow(/read-only transaction.*open the transaction for writing/);
    const { locks: unfenced } = await startLocks(redis.url);
    await unfenced.withLock(stock.key, () =>
      dataSource.transaction((manager) => manager.query('SELECT 1')),
    );
  });

  it('because its level is set inside of it says so, with the way out', async () => {
    const dataSource = await openAware();
    const { locks } = await startFenced();
    const set = 'SET TRANSACTION ISOLATION LEVEL SERIALIZABLE';
    const sale = locks.withLock(stock.key, () =>
      dataSource.transaction((manager) => manager.query(set)),
    );
    await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
    await expect(sale).rejects.toThrow(/give the isolation level when the transaction is opened/);
    const { locks: unfenced } = await startLocks(redis.url);
    await unfenced.withLock(stock.key, () =>
      dataSource.transaction((manager) => manager.query(set)),
    );
  });
});

describe('services with prefixes of their own', () => {
  it('share a fence table, and do not block each other over keys of the same name', async () => {
    const dataSource = await openAware();
    const { locks } = await startFenced();
    const { locks: others } = await startFenced({ keyPrefix: 'billing:' });
    const [opened, end] = [makeGate(), makeGate()];
    const first = locks.withLock(stock.key, () =>
      dataSource.transaction(async () => {
        opened.open();
        await end.opened;
      }),
    );
    await opened.opened;
    await others.withLock(stock.key, () =>
      dataSource.transaction((manager) => stock.takeOne(manager)),
    );
    end.open();
    await first;
    const rows = await postgres.query<{ lock_key: string }>(
      'SELECT lock_key FROM lock_fence WHERE lock_key LIKE $1',
      [`%${stock.product}%`],
    );
    const keys = rows.map(({ lock_key }) => lock_key);
    expect(keys.sort()).toEqual([`billing:{${stock.key}}`, stock.key]);
  });
});
