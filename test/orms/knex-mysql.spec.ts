import { expect, it } from '@jest/globals';
import knexOf, { type Knex } from 'knex';
import { LockCommitUnknownError, LockInTransactionError, LockLostError } from 'nestjs-locked';
import { lockAwareTransactions } from 'nestjs-locked/transactions';
import { afterTest } from '../support/after-test.js';
import { useMariaDb } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { eventually } from '../support/eventually.js';
import { useRedis } from '../support/shared-redis.js';
import { startLocks } from '../transactions/locks.js';
import { useStock } from '../transactions/stock.js';

const redis = useRedis();

describeWithMariaDb('a transaction of Knex on MariaDB under a lock', () => {
  const mariaDb = useMariaDb();
  const stock = useStock(mariaDb, 'mysql');

  type Body = (tx: Knex.Transaction) => Promise<unknown>;

  const takeOne: Body = async (tx) =>
    tx('stock').where({ id: stock.product }).decrement('quantity', 1);

  const commits: Body = async (tx) => (await tx.raw('COMMIT')) as unknown;

  /** Runs transactions on a pool of one connection. */
  const transactions = () => {
    const connection = { ...mariaDb.settings, multipleStatements: true };
    const knex = knexOf({ client: 'mysql2', connection, pool: { min: 0, max: 1 } });
    afterTest(() => knex.destroy());
    const run = lockAwareTransactions<Knex.Transaction>();
    return (body: Body): Promise<unknown> =>
      run((wrap) => knex.transaction((own) => wrap(own, body)));
  };

  it.each<[string, Body]>([
    ['COMMIT', commits],
    ['a COMMIT among others', async (tx) => (await tx.raw('SELECT 1; COMMIT')) as unknown],
    ['a stream', (tx) => tx.raw('COMMIT').stream().toArray()],
    ['COMMIT in a savepoint', (tx) => tx.transaction(commits)],
  ])('writes nothing if its body commits by a statement: %s', async (_, end) => {
    const transact = transactions();
    const { locks } = await startLocks(redis.url);
    let refusal: unknown;
    const sold = locks.withLock(stock.key, () =>
      transact(async (tx) => {
        await takeOne(tx);
        refusal = await end(tx).catch((error: unknown) => error); // swallowed
        await takeOne(tx).catch(() => {});
      }),
    );
    await expect(sold).rejects.toThrow(LockInTransactionError);
    expect(refusal).toBeInstanceOf(LockInTransactionError);
    expect(await stock.quantity()).toBe(100);
  });

  it('writes nothing after a ROLLBACK of its body', async () => {
    const transact = transactions();
    const { locks } = await startLocks(redis.url);
    const sold = locks.withLock(stock.key, () =>
      transact(async (tx) => {
        await takeOne(tx);
        await tx.raw('ROLLBACK');
        await takeOne(tx).catch(() => {});
      }),
    );
    await expect(sold).rejects.toThrow(LockInTransactionError);
    expect(await stock.quantity()).toBe(100);
  });

  it('leaves nothing open if its body calls commit()', async () => {
    const transact = transactions();
    const { locks } = await startLocks(redis.url);
    const sold = locks.withLock(stock.key, () =>
      transact(async (tx) => {
        await takeOne(tx);
        await tx.commit();
      }),
    );
    await expect(sold).rejects.toThrow(LockInTransactionError);
    await transact(takeOne); // on the same connection
    expect(await stock.quantity()).toBe(99);
  });

  it('commits what its body and its savepoints have written, and rolls back what has failed', async () => {
    const transact = transactions();
    const { locks } = await startLocks(redis.url);
    const failing = async (tx: Knex.Transaction): Promise<never> => {
      await takeOne(tx);
      throw new Error('the body fails');
    };
    await locks.withLock(stock.key, async () => {
      await transact(async (tx) => {
        await takeOne(tx);
        await tx.transaction(takeOne);
        await expect(tx.transaction(failing)).rejects.toThrow('the body fails');
      });
      await expect(transact(failing)).rejects.toThrow('the body fails');
    });
    expect(await stock.quantity()).toBe(98);
  });
});

describeWithMariaDb('a transaction of Knex on MariaDB under a lock, opened by hand', () => {
  const mariaDb = useMariaDb();
  const stock = useStock(mariaDb, 'mysql');

  type Step = (tx: Knex.Transaction) => Promise<unknown>;

  const takeOne: Step = async (tx) =>
    tx('stock').where({ id: stock.product }).decrement('quantity', 1);

  /** Runs transactions on a pool of one connection. The opener swallows the errors of the body and of the gate. */
  const transactions = () => {
    const pool = { min: 0, max: 1 };
    const knex = knexOf({ client: 'mysql2', connection: mariaDb.settings, pool });
    afterTest(() => knex.destroy());
    const run = lockAwareTransactions<Knex.Transaction>();
    return (body: Step, end: Step = (tx) => tx.commit()): Promise<unknown> =>
      run(async (wrap) => {
        const own = await knex.transaction();
        await wrap(own, body).catch(() => {});
        await end(own);
      });
  };

  const open = async () => {
    const transact = transactions();
    const { locks } = await startLocks(redis.url);
    const loseTheLock = async (): Promise<void> => {
      const lock = locks.current(stock.key);
      await locks.forceRelease(stock.key);
      await eventually(() => expect(lock?.isHeld).toBe(false));
    };
    return { transact, locks, loseTheLock };
  };

  it('fails if the error of its body was swallowed, and leaves nothing open', async () => {
    const { transact, locks } = await open();
    const sold = locks.withLock(stock.key, () =>
      transact(async (tx) => {
        await takeOne(tx);
        throw new Error('out of credit');
      }),
    );
    await expect(sold).rejects.toBeInstanceOf(LockInTransactionError);
    await expect(sold).rejects.toHaveProperty('cause.message', 'out of credit');
    await transact(takeOne); // on the same connection
    expect(await stock.quantity()).toBe(99);
  });

  it.each(['in its body', 'behind the gate'])('fails if the lock was lost %s', async (where) => {
    const { transact, locks, loseTheLock } = await open();
    const sold = locks.withLock(stock.key, () =>
      where === 'in its body'
        ? transact(async (tx) => {
            await takeOne(tx);
            await loseTheLock();
          })
        : transact(takeOne, async (tx) => {
            await loseTheLock();
            await tx.commit();
          }),
    );
    await expect(sold).rejects.toBeInstanceOf(LockLostError);
    await transact(takeOne); // on the same connection
    expect(await stock.quantity()).toBe(99);
  });

  it('sends only the ROLLBACK of its opener after its body has failed', async () => {
    const { transact, locks } = await open();
    let refusal: unknown;
    const sold = locks.withLock(stock.key, () =>
      transact(
        () => Promise.reject(new Error('out of credit')),
        async (tx) => {
          await takeOne(tx).catch((error: unknown) => (refusal = error));
          await tx.rollback();
        },
      ),
    );
    await sold;
    expect(refusal).toBeInstanceOf(LockInTransactionError);
    expect(await stock.quantity()).toBe(100);
  });

  it('is not committed by the beginning of another one after the gate', async () => {
    const { transact, locks, loseTheLock } = await open();
    const sold = locks.withLock(stock.key, () =>
      transact(takeOne, async (tx) => {
        await loseTheLock();
        await tx.raw('START TRANSACTION').catch(() => {}); // swallowed
        await tx.commit();
      }),
    );
    await expect(sold).rejects.toBeInstanceOf(LockLostError);
    await transact(takeOne); // on the same connection
    expect(await stock.quantity()).toBe(99);
  });

  it('is in doubt if its COMMIT is not answered', async () => {
    const { transact, locks } = await open();
    let id: number | undefined;
    const own: Step = async (tx) => {
      const [rows] = await tx.raw<[{ id: number }[]]>('SELECT CONNECTION_ID() AS id');
      id = rows?.[0]?.id;
      await takeOne(tx);
    };
    const killAndCommit: Step = async (tx) => {
      await mariaDb.query(`KILL ${id}`);
      const left = 'SELECT id FROM information_schema.processlist WHERE id = ?';
      await eventually(async () => expect(await mariaDb.query(left, [id])).toEqual([]));
      await tx.commit();
    };
    const sold = locks.withLock(stock.key, () => transact(own, killAndCommit));
    await expect(sold).rejects.toBeInstanceOf(LockCommitUnknownError);
    expect(await stock.quantity()).toBe(100);
  });

  it('is in doubt if neither COMMIT nor ROLLBACK was sent', async () => {
    const { transact, locks } = await open();
    let left: Knex.Transaction | undefined;
    const leave: Step = async (tx) => {
      left = tx;
    };
    const sold = locks.withLock(stock.key, () => transact(takeOne, leave));
    await expect(sold).rejects.toBeInstanceOf(LockCommitUnknownError);
    await left?.rollback();
    expect(await stock.quantity()).toBe(100);
  });

  it('may be a savepoint, which is not committed by itself', async () => {
    const knex = knexOf({ client: 'mysql2', connection: mariaDb.settings });
    afterTest(() => knex.destroy());
    const { locks } = await open();
    const run = lockAwareTransactions<Knex.Transaction>();
    await knex.transaction((outer) =>
      locks.withLock(stock.key, () =>
        run((wrap) => outer.transaction((nested) => wrap(nested, takeOne))),
      ),
    );
    expect(await stock.quantity()).toBe(99);
  });

  it('commits, and may be rolled back instead', async () => {
    const { transact, locks } = await open();
    await locks.withLock(stock.key, async () => {
      await transact(takeOne);
      await transact(takeOne, (tx) => tx.rollback());
    });
    expect(await stock.quantity()).toBe(99);
  });
});

describeWithMariaDb('a transaction of Knex on MariaDB without a lock', () => {
  const mariaDb = useMariaDb();
  const stock = useStock(mariaDb, 'mysql');

  it('may be committed by its body', async () => {
    const knex = knexOf({ client: 'mysql2', connection: mariaDb.settings });
    afterTest(() => knex.destroy());
    await lockAwareTransactions<Knex.Transaction>()((wrap) =>
      knex.transaction((own) =>
        wrap(own, async (tx) => {
          await tx('stock').where({ id: stock.product }).decrement('quantity', 1);
          await tx.raw('COMMIT');
        }),
      ),
    );
    expect(await stock.quantity()).toBe(99);
  });
});
