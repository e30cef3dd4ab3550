import { describe, expect, it } from '@jest/globals';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import { type DataSource, EntitySchema, type QueryRunner } from 'typeorm';
import { type TestDatabase, useMariaDb, usePostgres } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { eventually } from '../support/eventually.js';
import { makeGate } from '../support/gate.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { startLocks } from './locks.js';
import { type Stock, useStock } from './stock.js';

const redis = useRedis();

/** Whoever is waited for this long waits for the wrong one. */
const STALLED_MS = 10_000;

const ITEM = new EntitySchema<{ id: string; quantity: number }>({
  name: 'Item',
  tableName: 'stock',
  columns: {
    id: { type: 'varchar', length: 64, primary: true },
    quantity: { type: 'int' },
  },
});

function savesBeside(type: 'postgres' | 'mysql', database: TestDatabase): void {
  const stock = useStock(database, type);

  it.each([1, 3])('do not stall with as many of them as connections: %s', async (size) => {
    const opened = await openDataSource(type, database.settings, size, { entities: [ITEM] });
    const dataSource = lockAwareDataSource(opened);
    const { locks } = await startLocks(redis.url, { fence: true });
    const save = (i: number): Promise<unknown> =>
      dataSource.getRepository(ITEM).save({ id: `${stock.product}/${i}`, quantity: 1 });
    const from = performance.now();
    await locks.withLock(stock.key, { leaseMs: 2 * STALLED_MS }, () =>
      Promise.all([
        ...Array.from({ length: size }, (_, i) => save(i)),
        dataSource.transaction((manager) => stock.takeOne(manager)),
      ]),
    );
    expect(performance.now() - from).toBeLessThan(STALLED_MS);
    const saved = await database.query("SELECT id FROM stock WHERE id LIKE '%/%'");
    expect([saved.length, await stock.quantity()]).toEqual([size, 99]);
    await database.query("DELETE FROM stock WHERE id LIKE '%/%'");
  });
}

const sellByHand = async (runner: QueryRunner, stock: Stock, pauseMs: number): Promise<void> => {
  await runner.startTransaction();
  await stock.takeOne(runner, pauseMs);
  await runner.commitTransaction();
};

describe('saves beside a transaction, which load before they wait for their turn', () =>
  savesBeside('postgres', usePostgres()));

describeWithMariaDb('on MariaDB, saves beside a transaction', () =>
  savesBeside('mysql', useMariaDb()),
);

describe('a transaction on a query runner that is connected before', () => {
  const postgres = usePostgres();
  const stock = useStock(postgres);
  /** The claim itself waits for 100 ms at most; a turn is waited for as long as the lease lasts. */
  const LIMITS = { waitMs: 0, leaseMs: 2 * STALLED_MS };

  /** With a pool of two connections. */
  const start = async () => {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 2));
    const { locks } = await startLocks(redis.url, { fence: true });
    const [runner, other] = [dataSource.createQueryRunner(), dataSource.createQueryRunner()];
    await Promise.all([runner.connect(), other.connect()]);
    return { dataSource, locks, runner, other };
  };
  const isWaitedFor = ({ driver }: DataSource): Promise<void> =>
    eventually(async () => {
      expect((driver as { master?: unknown }).master).toMatchObject({ waitingCount: 1 });
    });

  it('goes before those that have no connection', async () => {
    const { dataSource, locks, runner, other } = await start();
    const from = performance.now();
    await locks.withLock(stock.key, LIMITS, async () => {
      await other.startTransaction();
      const unconnected = dataSource.transaction((manager) => stock.takeOne(manager));
      const connected = sellByHand(runner, stock, 5).finally(() => runner.release());
      await other.commitTransaction();
      await connected; // `other` keeps its connection up to here
      await other.release();
      await unconnected;
    });
    expect(performance.now() - from).toBeLessThan(STALLED_MS);
    expect(await stock.quantity()).toBe(98);
  });

  it('waits for one that is open', async () => {
    const { dataSource, locks, runner, other } = await start();
    await other.release();
    const begun = makeGate();
    await locks.withLock(stock.key, LIMITS, async () => {
      const open = dataSource.transaction(async (manager) => {
        begun.open();
        await stock.takeOne(manager, 1_000);
      });
      await begun.opened;
      await sellByHand(runner, stock, 5);
      await open;
    });
    await runner.release();
    expect(await stock.quantity()).toBe(98);
  });

  it.each(['with a callback', 'by hand'])(
    'is waited for by one that gets its connection later, %s',
    async (how) => {
      const { dataSource, locks, runner, other } = await start();
      const late = dataSource.createQueryRunner();
      await locks.withLock(stock.key, LIMITS, async () => {
        const unconnected =
          how === 'by hand'
            ? sellByHand(late, stock, 5)
            : dataSource.transaction((manager) => stock.takeOne(manager));
        await isWaitedFor(dataSource); // it has the turn
        await runner.startTransaction();
        await runner.query('SELECT 1'); // it has claimed
        await other.release();
        await stock.takeOne(runner, 1_000);
        await runner.commitTransaction();
        await unconnected;
      });
      await Promise.all([runner.release(), late.release()]);
      expect(await stock.quantity()).toBe(98);
    },
  );
});
