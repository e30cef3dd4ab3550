import { describe, expect, it } from '@jest/globals';
import { LockCommitUnknownError, LockInTransactionError, LockLostError } from 'nestjs-locked';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import type { DataSource, EntitySubscriberInterface, QueryRunner } from 'typeorm';
import type { EventEmitter } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { type TestDatabase, useMariaDb, usePostgres } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { eventually } from '../support/eventually.js';
import { makeGate } from '../support/gate.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { type Stock, useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);

async function start(
  subscriber: EntitySubscriberInterface,
  type: 'postgres' | 'mysql' = 'postgres',
  database: TestDatabase = postgres,
  poolSize?: number,
) {
  const dataSource = lockAwareDataSource(await openDataSource(type, database.settings, poolSize));
  const { locks } = await startLocks(redis.url, { fence: true });
  dataSource.subscribers.push(subscriber);
  return { dataSource, locks };
}

/** Whether the lock is held, and what is left of the product. */
const state = async (of = stock): Promise<unknown> => [
  await isHeld(redis.url, of.key),
  await of.quantity(),
];

/** The connection is closed on this side. */
const close = async ({ queryRunner }: { queryRunner: QueryRunner }): Promise<void> => {
  const client = (await queryRunner.connect()) as { end: () => Promise<void> };
  void client.end();
};

/** The database ends the connection, as it does with one that was idle for too long. */
async function disconnect({ queryRunner }: { queryRunner: QueryRunner }): Promise<void> {
  const [row] = (await queryRunner.query('SELECT pg_backend_pid() AS pid')) as { pid: number }[];
  await postgres.query('SELECT pg_terminate_backend($1::int)', [row?.pid]);
  await eventually(() => expect(queryRunner.isReleased).toBe(true));
}

const sellByHand = async (dataSource: DataSource, from = stock): Promise<void> => {
  const runner = dataSource.createQueryRunner();
  try {
    await runner.startTransaction();
    await from.takeOne(runner);
    await runner.commitTransaction();
  } finally {
    await runner.release();
  }
};

const FORMS = [
  [
    'with a callback',
    (dataSource: DataSource, from = stock) =>
      dataSource.transaction((manager) => from.takeOne(manager)),
  ],
  ['by hand', sellByHand],
] as const;

/** The last that runs before the COMMIT reaches the connection. */
const beforeCommit = (
  hook: (event: { queryRunner: QueryRunner }) => Promise<void>,
): EntitySubscriberInterface => ({
  beforeQuery: (event) => (event.query === 'COMMIT' ? hook(event) : undefined),
});

describe('a COMMIT that was not sent is not in doubt', () => {
  it.each(FORMS)('because a hook before it lost the connection: %s', async (_, sell) => {
    const { dataSource, locks } = await start({ beforeTransactionCommit: disconnect });
    const sale = locks.withLock(stock.key, () => sell(dataSource));
    await expect(sale).rejects.toThrow(/already released/);
    await expect(sale).rejects.not.toBeInstanceOf(LockCommitUnknownError);
    expect(await state()).toEqual([false, 100]);
  });

  it.each(FORMS)('because beforeQuery lost the connection: %s', async (_, sell) => {
    const { dataSource, locks } = await start(beforeCommit(disconnect));
    const sale = locks.withLock(stock.key, () => sell(dataSource));
    await expect(sale).rejects.toThrow(/not queryable/);
    await expect(sale).rejects.not.toBeInstanceOf(LockCommitUnknownError);
    expect(await state()).toEqual([false, 100]);
  });

  it.each(FORMS)('because beforeQuery closes the connection: %s', async (_, sell) => {
    const { dataSource, locks } = await start(beforeCommit(close));
    const sale = locks.withLock(stock.key, () => sell(dataSource));
    await expect(sale).rejects.toThrow(/not queryable/);
    await expect(sale).rejects.not.toBeInstanceOf(LockCommitUnknownError);
    expect(await state()).toEqual([false, 100]);
  });

  it.each(FORMS)('and that of the next user of its connection is sent: %s', async (_, sell) => {
    const [begun, asked] = [makeGate(), makeGate()];
    let calls = 0;
    const giveBack = async ({ queryRunner }: { queryRunner: QueryRunner }): Promise<void> => {
      if (calls++ > 0) return; // the COMMIT of the next one
      begun.open();
      await asked.opened;
      await queryRunner.release();
      await next;
    };
    const { dataSource, locks } = await start(beforeCommit(giveBack), 'postgres', postgres, 1);
    const sale = locks.withLock(stock.key, () => sell(dataSource));
    await begun.opened;
    const next = dataSource.transaction((manager) => stock.takeOne(manager)); // waits for the connection
    asked.open();
    await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
    await next;
    expect(await state()).toEqual([false, 99]);
  });

  it.each(FORMS)('nor does it commit what its next user has written: %s', async (_, sell) => {
    const [begun, asked, wrote, end] = [makeGate(), makeGate(), makeGate(), makeGate()];
    const giveBack = async ({ queryRunner }: { queryRunner: QueryRunner }): Promise<void> => {
      begun.open();
      await asked.opened;
      await queryRunner.release();
      await wrote.opened;
    };
    const { dataSource, locks } = await start(beforeCommit(giveBack), 'postgres', postgres, 1);
    const sale = locks.withLock(stock.key, () => sell(dataSource));
    await begun.opened;
    const next = dataSource.transaction(async (manager) => {
      await stock.takeOne(manager);
      wrote.open();
      await end.opened;
      throw new Error('changed my mind');
    });
    asked.open();
    await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
    end.open();
    await expect(next).rejects.toThrow('changed my mind');
    expect(await state()).toEqual([false, 100]);
  });

  it.each(FORMS)('because beforeQuery gave the connection back: %s', async (_, sell) => {
    const { dataSource, locks } = await start(
      beforeCommit(({ queryRunner }) => queryRunner.release()),
    );
    const sale = locks.withLock(stock.key, () => sell(dataSource));
    await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
    expect(await state()).toEqual([false, 100]);
  });

  it.each([
    ['before it', 'beforeTransactionCommit', 'refused', 100],
    ['after its answer', 'afterTransactionCommit', 'done', 99],
  ] as const)(
    'because the query runner was released in a hook %s',
    async (_, hook, told, quantity) => {
      const [begun, end] = [makeGate(), makeGate()];
      const { dataSource, locks } = await start({
        [hook]: async () => {
          begun.open();
          await end.opened;
        },
      });
      const runner = dataSource.createQueryRunner();
      await locks.withLock(stock.key, async () => {
        await runner.startTransaction();
        await stock.takeOne(runner);
        const committing = runner.commitTransaction().then(
          () => 'done',
          () => 'refused',
        );
        await begun.opened;
        await runner.release();
        end.open();
        expect(await committing).toBe(told);
      });
      expect(await state()).toEqual([false, quantity]);
    },
  );
});

function describeHooks(type: 'postgres' | 'mysql', database: TestDatabase, shop: Stock): void {
  describe.each(FORMS)('while beforeQuery runs, the COMMIT is not sent: %s', (_, sell) => {
    it('and if that throws, the transaction is rolled back', async () => {
      const fail = (): Promise<never> => Promise.reject(new Error('not now'));
      const { dataSource, locks } = await start(beforeCommit(fail), type, database);
      const sale = locks.withLock(shop.key, () => sell(dataSource, shop));
      await expect(sale).rejects.toThrow('not now');
      expect(await state(shop)).toEqual([false, 100]);
    });

    it.each(FORMS)('so that a second transaction there is refused: %s', async (__, sellAgain) => {
      let calls = 0;
      let inHook: unknown;
      const second = async (): Promise<void> => {
        if (++calls > 1) return;
        inHook = await sellAgain(dataSource, shop).catch((error: unknown) => error);
      };
      const { dataSource, locks } = await start(beforeCommit(second), type, database);
      await locks.withLock(shop.key, () => sell(dataSource, shop));
      expect(inHook).toBeInstanceOf(LockInTransactionError);
      expect(await state(shop)).toEqual([false, 99]);
    });
  });
}

it('behind a COMMIT that was refused because a hook lost the lock, a branch of the body writes nothing', async () => {
  const { dataSource, locks } = await start({
    beforeTransactionCommit: async () => {
      const lock = locks.current(stock.key);
      await locks.forceRelease(stock.key);
      await eventually(() => expect(lock?.isHeld).toBe(false));
    },
    afterTransactionRollback: () => sleep(200),
  });
  let branch: Promise<void> | undefined;
  let tries = 0;
  const sale = locks.withLock(stock.key, () =>
    dataSource.transaction(async (manager) => {
      await stock.takeOne(manager);
      branch = (async () => {
        const endsAt = performance.now() + 500;
        while (performance.now() < endsAt) {
          await stock.takeOne(manager, 0).catch(() => tries++);
          await sleep(10);
        }
      })();
    }),
  );
  await expect(sale).rejects.toBeInstanceOf(LockLostError);
  await branch;
  expect(tries).toBeGreaterThan(10);
  expect(await stock.quantity()).toBe(100);
});

describeHooks('postgres', postgres, stock);

describeWithMariaDb('on MariaDB', () => {
  const mariaDb = useMariaDb();
  const shop = useStock(mariaDb, 'mysql');
  describeHooks('mysql', mariaDb, shop);

  it.each(FORMS)(
    'a COMMIT whose connection is lost in beforeQuery is not sent: %s',
    async (_, sell) => {
      const disconnected = async ({ queryRunner }: { queryRunner: QueryRunner }): Promise<void> => {
        const [row] = (await queryRunner.query('SELECT CONNECTION_ID() AS id')) as { id: number }[];
        const ended = new Promise((resolve) => {
          void queryRunner
            .connect()
            .then((connection: EventEmitter) => connection.once('error', resolve));
        });
        await mariaDb.query(`KILL ${Number(row?.id)}`);
        await ended;
      };
      const { dataSource, locks } = await start(beforeCommit(disconnected), 'mysql', mariaDb);
      const sale = locks.withLock(shop.key, () => sell(dataSource, shop));
      await expect(sale).rejects.toThrow(/closed state/);
      await expect(sale).rejects.not.toBeInstanceOf(LockCommitUnknownError);
      expect(await state(shop)).toEqual([false, 100]);
    },
  );
});
