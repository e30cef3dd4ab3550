import { describe, expect, it } from '@jest/globals';
import { Propagation } from '@nestjs-cls/transactional';
import { TransactionalAdapterTypeOrm } from '@nestjs-cls/transactional-adapter-typeorm';
import { LockInTransactionError } from 'nestjs-locked';
import { lockAwareAdapter } from 'nestjs-locked/nestjs-cls';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import { DataSource, type EntityManager } from 'typeorm';
import { afterTest } from '../support/after-test.js';
import { usePostgres } from '../support/databases.js';
import { useRedis } from '../support/shared-redis.js';
import { isHeld, startLocks } from '../transactions/locks.js';
import { type Runs, useStock } from '../transactions/stock.js';
import { clsOrm, type ClsParts, POOL_SIZE } from './cls-orm.js';
import { describeLockContract } from './lock-contract.js';
import { describePropagation } from './propagation-suite.js';

const typeOrm = async (url: string): Promise<ClsParts> => {
  const dataSource = await new DataSource({
    type: 'postgres',
    url,
    poolSize: POOL_SIZE,
  }).initialize();
  return {
    adapter: lockAwareAdapter(new TransactionalAdapterTypeOrm({ dataSourceToken: DataSource })),
    connection: dataSource,
    isolated: (isolation) => ({ isolationLevel: isolation.toUpperCase() }),
    runs: (tx: Runs) => tx,
    close: () => dataSource.destroy(),
  };
};

const TYPEORM = clsOrm('TypeORM, its adapter wrapped', typeOrm);

const typeOrmTwice = async (url: string): Promise<ClsParts> => {
  const parts = await typeOrm(url);
  lockAwareDataSource(parts.connection as DataSource);
  return parts;
};

const TYPEORM_TWICE = clsOrm('TypeORM, adapter and data source wrapped', typeOrmTwice);

describeLockContract(TYPEORM, { roundTrips: 0 });
describePropagation(TYPEORM);
describePropagation(TYPEORM_TWICE);

describe.each([
  ['its adapter', typeOrm],
  ['adapter and data source', typeOrmTwice],
])('a subscriber that throws, with %s wrapped', (_name, parts) => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  it.each([
    ['before the COMMIT has rolled back', 'beforeTransactionCommit', 100],
    ['after the COMMIT does not put it in doubt', 'afterTransactionCommit', 99],
  ] as const)('%s: the lock is released at once', async (_, hook, quantity) => {
    const opened = await parts(postgres.url);
    const { subscribers } = opened.connection as DataSource;
    subscribers.push({ [hook]: () => Promise.reject(new Error('no mail server')) });
    const orm = await clsOrm('', () => opened).open(postgres.url);
    afterTest(() => orm.close());
    const { locks } = await startLocks(redis.url, { fence: {} });
    const sale = locks.withLock(stock.key, () => orm.transaction((tx) => stock.takeOne(tx)));
    await expect(sale).rejects.toThrow('no mail server');
    expect([await isHeld(redis.url, stock.key), await stock.quantity()]).toEqual([false, quantity]);
  });
});

describe('adapter and data source wrapped', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);
  const { NotSupported, Required } = Propagation;

  const start = async (insideTransaction: 'reject' | 'restart') => {
    const orm = await TYPEORM_TWICE.open(postgres.url);
    afterTest(() => orm.close());
    const { locks } = await startLocks(redis.url, { fence: {}, insideTransaction });
    return { orm, locks, held: () => isHeld(redis.url, stock.key) };
  };

  it('a lock under NOT_SUPPORTED is an ordinary one', async () => {
    const { orm, locks, held } = await start('reject');
    await orm.run(Required, async () => {
      await orm.tx().query('SELECT 1', []);
      await orm.run(NotSupported, () => locks.withLock(stock.key, () => stock.takeOne(orm.tx())));
      expect([await held(), await stock.quantity()]).toEqual([false, 99]);
    });
  });

  it('a transaction that a subscriber opens past the adapter is detected as well', async () => {
    const { orm, locks } = await start('reject');
    let dataSource!: DataSource;
    let asked: Promise<void> | undefined;
    await orm.transaction(async (tx) => {
      dataSource = (tx as unknown as EntityManager).connection;
      dataSource.subscribers.push({
        afterTransactionCommit: async () => {
          dataSource.subscribers.length = 0;
          asked = dataSource.transaction(() => locks.withLock(stock.key, async () => {}));
          await asked.catch(() => {});
        },
      });
    });
    await expect(asked).rejects.toBeInstanceOf(LockInTransactionError);
  });

  it('a lock in a savepoint that TypeORM has made is claimed before the savepoint', async () => {
    const { orm, locks, held } = await start('restart');
    await orm.transaction(async (tx) => {
      const manager = tx as unknown as EntityManager;
      const inner = manager.transaction(async (nested) => {
        await locks.withLock(stock.key, () => stock.takeOne(nested));
        throw new Error('back to the savepoint');
      });
      await expect(inner).rejects.toThrow('back to the savepoint');
      expect(await held()).toBe(true);
    });
    expect([await held(), await stock.quantity()]).toEqual([false, 100]);
    expect(await stock.fence()).toBeGreaterThan(0);
  });
});
