import { describe, expect, it } from '@jest/globals';
import { MikroORM } from '@mikro-orm/postgresql';
import knexOf, { type Knex } from 'knex';
import { LockInTransactionError } from 'nestjs-locked';
import { lockAwareTransactions } from 'nestjs-locked/transactions';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import type { Client } from 'pg';
import { Sequelize } from 'sequelize';
import { afterTest } from '../support/after-test.js';
import { usePostgres } from '../support/databases.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { startLocks } from './locks.js';
import { transactionsOf as mikroOrmTransactionsOf } from './recipes/mikro-orm.js';
import { transactionsOf as sequelizeTransactionsOf } from './recipes/sequelize.js';
import { useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);

interface Sale {
  /** In the transaction. */
  readonly send: (sql: string) => Promise<unknown>;
  /** By the method of the library. */
  readonly rollBack: () => Promise<unknown>;
  /** In no transaction; with MikroORM, by what was in one. */
  readonly sendBeside: (sql: string) => Promise<unknown>;
}

type Transact = (body: (sale: Sale) => Promise<unknown>) => Promise<unknown>;

/** On a pool of one connection. */
const LIBRARIES: Readonly<Record<string, () => Promise<Transact>>> = {
  Knex: async () => {
    const knex = knexOf({ client: 'pg', connection: postgres.url, pool: { min: 0, max: 1 } });
    afterTest(() => knex.destroy());
    const run = lockAwareTransactions<Knex.Transaction>({ pool: knex });
    return (body) =>
      run((wrap) =>
        knex.transaction((own) =>
          wrap(own, (tx) =>
            body({
              send: async (sql) => (await tx.raw(sql)) as unknown,
              rollBack: async () => tx.rollback(),
              sendBeside: async (sql) => (await knex.raw(sql)) as unknown,
            }),
          ),
        ),
      );
  },
  MikroORM: async () => {
    const orm = await MikroORM.init({
      entities: [],
      discovery: { warnWhenNoEntities: false },
      clientUrl: postgres.url,
      pool: { max: 1 },
    });
    afterTest(() => orm.close(true));
    const transact = await mikroOrmTransactionsOf(orm);
    return (body) =>
      transact((em) =>
        body({
          send: (sql) => em.execute(sql),
          rollBack: () => em.rollback(),
          sendBeside: (sql) => em.execute(sql),
        }),
      );
  },
  Sequelize: async () => {
    const sequelize = new Sequelize(postgres.url, { logging: false, pool: { max: 1 } });
    afterTest(() => sequelize.close());
    const transact = sequelizeTransactionsOf(sequelize);
    return (body) =>
      transact((transaction) =>
        body({
          send: (sql) => sequelize.query(sql, { transaction }),
          rollBack: () => transaction.rollback(),
          sendBeside: (sql) => sequelize.query(sql),
        }),
      );
  },
};

const sell = (): string => `UPDATE stock SET quantity = quantity - 1 WHERE id = '${stock.product}'`;

describe.each(Object.keys(LIBRARIES))('%s, if the body rolls back with a statement', (name) => {
  const start = async () => {
    const transact = await LIBRARIES[name]?.();
    const { locks } = await startLocks(redis.url, { fence: true });
    const sold = (body: (sale: Sale) => Promise<unknown>): Promise<unknown> =>
      locks.withLock(stock.key, async () => transact?.(body));
    return { sold, transact };
  };

  it('takes no other statement of it', async () => {
    const { sold } = await start();
    const refused: unknown[] = [];
    const note = (error: unknown): unknown => refused.push(error);
    const sale = sold(async ({ send }) => {
      await send('ROLLBACK');
      await send(sell()).catch(note);
      await send('BEGIN').catch(note);
      await send(sell()).catch(note);
      await send('COMMIT').catch(note);
    });
    await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
    expect([refused.length, await stock.quantity()]).toEqual([4, 100]);
    expect(String(refused[0])).toMatch(/Its body has rolled it back with a statement of its own/);
  });

  it('takes what is sent beside it after a rollback that the library knows of', async () => {
    const { sold } = await start();
    const refused: unknown[] = [];
    const sale = sold(async ({ send, rollBack, sendBeside }) => {
      await send(sell());
      await rollBack();
      await sendBeside(sell()).catch((error: unknown) => refused.push(error));
    });
    await sale.catch(() => {});
    // An EntityManager continues without its transaction, as if nothing had happened.
    const isRefused = name === 'MikroORM';
    expect([refused.length, await stock.quantity()]).toEqual(isRefused ? [1, 100] : [0, 99]);
  });

  it('leaves it alone without a lock', async () => {
    const { transact } = await start();
    await transact?.(async ({ send }) => {
      await send('ROLLBACK');
      await send(sell());
    });
    expect(await stock.quantity()).toBe(99);
  });

  it('gives its connection back in order', async () => {
    const { sold, transact } = await start();
    const pid = 'SELECT pg_backend_pid() AS pid';
    const pids: unknown[] = [];
    const failed = sold(async ({ send }) => {
      pids.push(pidIn(await send(pid)));
      await send('ROLLBACK');
      await send(sell());
    });
    await expect(failed).rejects.toThrow();
    await sold(async ({ send }) => {
      pids.push(pidIn(await send(pid)));
      await send(sell());
    });
    await transact?.(({ send }) => send(sell()));
    expect([pids[1], await stock.quantity()]).toEqual([pids[0], 98]);
  });
});

function pidIn(answer: unknown): string | undefined {
  return /"pid":(\d+)/.exec(JSON.stringify(answer))?.[1];
}

describe('a query runner of TypeORM driven manually, after a ROLLBACK of its body', () => {
  it.each(['commitTransaction', 'release'] as const)(
    'takes nothing on its connection, and gives it back in order by %s()',
    async (end) => {
      const dataSource = lockAwareDataSource(
        await openDataSource('postgres', postgres.settings, 1),
      );
      const { locks } = await startLocks(redis.url, { fence: true });
      const runner = dataSource.createQueryRunner();
      const client = (await runner.connect()) as Client;
      let refusal: unknown;
      const sale = locks.withLock(stock.key, async () => {
        await runner.startTransaction();
        await client.query('ROLLBACK');
        await client.query(sell()).catch((error: unknown) => (refusal = error));
        await runner[end]();
      });
      if (end === 'release') await sale;
      else await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
      expect(refusal).toBeInstanceOf(LockInTransactionError);
      await runner.release();
      const next = dataSource.createQueryRunner();
      expect(await next.connect()).toBe(client);
      await next.query(sell());
      await next.release();
      expect(await stock.quantity()).toBe(99);
    },
  );
});
