import { expect, it } from '@jest/globals';
import { lockAwareTransactions } from 'nestjs-locked/transactions';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import pg from 'pg';
import type { QueryRunner } from 'typeorm';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterTest } from '../support/after-test.js';
import { usePostgres } from '../support/databases.js';
import { makeGate } from '../support/gate.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { startLocks } from './locks.js';
import { useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);

interface Given {
  readonly pool: pg.Pool;
  /** Runs a body that is given what sends statements in its transaction, and what gives the connection back. */
  readonly transact: (
    body: (send: (sql: string) => Promise<unknown>, giveBack: () => unknown) => Promise<unknown>,
  ) => Promise<unknown>;
}

const openTypeOrm = async () => {
  const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));
  const { master: pool } = dataSource.driver as unknown as { readonly master: pg.Pool };
  return { dataSource, pool };
};

/** On a pool of one connection. */
const WAYS: Record<string, () => Promise<Given>> = {
  'TypeORM, with a callback': async () => {
    const { dataSource, pool } = await openTypeOrm();
    return {
      pool,
      transact: (body) =>
        dataSource.transaction((manager) => {
          const runner = manager.queryRunner as QueryRunner;
          return body(
            (sql) => runner.query(sql),
            () => runner.release(),
          );
        }),
    };
  },
  'TypeORM, by hand': async () => {
    const { dataSource, pool } = await openTypeOrm();
    return {
      pool,
      transact: async (body) => {
        const runner = dataSource.createQueryRunner();
        await runner.startTransaction();
        return body(
          (sql) => runner.query(sql),
          () => runner.release(),
        );
      },
    };
  },
  'node-postgres': () => {
    const pool = new pg.Pool({ connectionString: postgres.url, max: 1 });
    afterTest(() => pool.end());
    const run = lockAwareTransactions<pg.PoolClient>({ dialect: 'postgres', pool });
    const transact: Given['transact'] = (body) =>
      run(async (wrap) => {
        const client = await pool.connect();
        await client.query('BEGIN');
        return wrap(client, (tx) =>
          body(
            (sql) => tx.query(sql),
            () => tx.release(),
          ),
        );
      });
    return Promise.resolve({ pool, transact });
  },
};

// The pool calls them in the async context of the code that gives the connection back.
it.each(Object.keys(WAYS))(
  'who waits for the connection that a body gives back behind its ROLLBACK is not refused: %s',
  async (name) => {
    const { pool, transact } = await (WAYS[name] as () => Promise<Given>)();
    const { locks } = await startLocks(redis.url, { fence: true });
    const { opened: isOpen, open: goOn } = makeGate();
    const raise = (by: number) =>
      `UPDATE stock SET quantity = quantity + ${by} WHERE id = '${stock.product}'`;
    const waiting = isOpen.then(() => pool.query(raise(5)));
    const failed = locks.withLock(stock.key, () =>
      transact(async (send, giveBack) => {
        await send(raise(1));
        goOn();
        while (pool.waitingCount === 0) await sleep(5);
        await send('ROLLBACK');
        await giveBack();
        await waiting;
      }),
    );
    await Promise.allSettled([failed]);
    await waiting;
    expect(await stock.quantity()).toBe(105);
  },
);
