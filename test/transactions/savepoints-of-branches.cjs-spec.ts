import { describe, expect, it } from '@jest/globals';
import { Propagation } from '@nestjs-cls/transactional';
import { TransactionalAdapterDrizzleOrm } from '@nestjs-cls/transactional-adapter-drizzle-orm';
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres';
import { LockInTransactionError } from 'nestjs-locked';
import { lockAwareAdapter } from 'nestjs-locked/nestjs-cls';
import { AsyncResource } from 'node:async_hooks';
import { afterTest } from '../support/after-test.js';
import { usePostgres } from '../support/databases.js';
import { makeGate } from '../support/gate.js';
import { useRedis } from '../support/shared-redis.js';
import { clsOrm, openPool } from './cls-orm.js';
import { drizzleRuns } from './drizzle-runs.js';
import { startLocks } from './locks.js';
import { type Runs, useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);

const DRIZZLE = clsOrm('Drizzle', (url) => {
  const pool = openPool(url);
  return {
    adapter: lockAwareAdapter(
      new TransactionalAdapterDrizzleOrm<NodePgDatabase>({ drizzleInstanceToken: 'drizzle' }),
    ),
    connection: drizzle(pool),
    isolated: (isolationLevel) => ({ isolationLevel }),
    runs: drizzleRuns,
    close: () => pool.end(),
  };
});

type Opened = Awaited<ReturnType<typeof DRIZZLE.open>>;

async function open(): Promise<Opened> {
  const opened = await DRIZZLE.open(postgres.url);
  afterTest(() => opened.close());
  return opened;
}

describe('a savepoint of another branch, with nestjs-cls and an ORM that does not count its savepoints', () => {
  /** While a branch is in a savepoint, which is rolled back, another one sells. */
  const besideSavepoint = async (
    orm: Opened,
    sell: (tx: Runs, goOn: () => Promise<void>) => Promise<unknown>,
  ): Promise<void> => {
    const [opened, claimed] = [makeGate(), makeGate()];
    await orm.run(Propagation.Required, async () => {
      await orm.tx().query('SELECT 1', []);
      const undone = orm
        .run(Propagation.Nested, async () => {
          await orm.tx().query('SELECT 1', []);
          opened.open();
          await claimed.opened;
          throw new Error('back to the savepoint');
        })
        .catch(() => {});
      await opened.opened;
      const goOn = async (): Promise<void> => {
        claimed.open();
        await undone;
      };
      await sell(orm.tx(), goOn).finally(goOn);
    });
  };

  it('takes back a claim, which is made again before COMMIT', async () => {
    const orm = await open();
    const { locks } = await startLocks(redis.url, { fence: true });
    const lock = await new AsyncResource('elsewhere').runInAsyncScope(() =>
      locks.acquire(stock.key),
    );
    await besideSavepoint(orm, (tx, goOn) =>
      lock.run(async () => {
        await goOn();
        await stock.takeOne(tx);
      }),
    );
    expect([await stock.quantity(), await stock.fence()]).toEqual([99, lock.fencingToken]);
    await lock.release();
  });

  it("lets no lock join, because 'join' claims outside of savepoints only", async () => {
    const orm = await open();
    const { locks } = await startLocks(redis.url, { fence: true, insideTransaction: 'join' });
    const sale = besideSavepoint(orm, (tx) => locks.withLock(stock.key, () => stock.takeOne(tx)));
    await expect(sale).rejects.toThrow(/cannot be claimed inside a savepoint/);
    await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
    expect(await stock.quantity()).toBe(100);
  });
});
