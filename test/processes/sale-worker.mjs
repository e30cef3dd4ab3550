/**
 * Sells from the table `stock` under a lock, in a transaction of TypeORM. `SaleProcess` drives it with messages
 * `{ id, command, args }`, each answered with `{ id, result }` or `{ id, error }`.
 */
import { NestFactory } from '@nestjs/core';
import { LockService, RedisLockModule } from 'nestjs-locked';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import { DataSource } from 'typeorm';

import 'reflect-metadata';

let application;
let dataSource;
let locks;

const commands = {
  async open({ redisUrl, database, lockOptions }) {
    dataSource = await new DataSource({ type: 'postgres', poolSize: 3, ...database }).initialize();
    lockAwareDataSource(dataSource);
    application = await NestFactory.createApplicationContext(
      RedisLockModule.forRoot({ connection: redisUrl, ...lockOptions }),
      { logger: false },
    );
    locks = application.get(LockService);
  },

  /**
   * Sells one piece.
   * @returns when the lock was acquired, the body began and COMMIT was answered, on the clock of `sharedNow`
   */
  async sell({ key, product, stopBeforeCommit }) {
    return locks.withLock(key, async (lock) => {
      const entered = now();
      let claimed;
      await dataSource.transaction(async (manager) => {
        claimed = now();
        const [{ quantity }] = await manager.query('SELECT quantity FROM stock WHERE id = $1', [
          product,
        ]);
        await manager.query('UPDATE stock SET quantity = $2 WHERE id = $1', [
          product,
          quantity - 1,
        ]);
        await manager.query('INSERT INTO sold VALUES ($1)', [product]);
        if (stopBeforeCommit) standStillBeforeCommit(manager.queryRunner);
      });
      return { token: lock.fencingToken, entered, claimed, committed: now() };
    });
  },

  /**
   * Adds one to the quantity of the product `times` times. Each time, a second connection reads first, and must see
   * what the last holder has committed.
   * @returns how often it did not
   */
  async count({ key, product, times }) {
    let stale = 0;
    for (let n = 0; n < times; n += 1) {
      await locks.withLock(key, async () => {
        const [{ quantity }] = await dataSource.query('SELECT quantity FROM stock WHERE id = $1', [
          product,
        ]);
        await dataSource.transaction(async (manager) => {
          const [[row]] = await manager.query(
            'UPDATE stock SET quantity = quantity + 1 WHERE id = $1 RETURNING quantity',
            [product],
          );
          if (row.quantity !== quantity + 1) stale += 1;
        });
      });
    }
    return stale;
  },

  async close() {
    await application.close();
    await dataSource.destroy();
  },
};

/**
 * Stops this process after the last check of the lock, right before COMMIT is written to the socket. COMMIT is written
 * as soon as the process resumes, before any code can learn how much time has passed.
 */
function standStillBeforeCommit(runner) {
  const { connection } = runner.databaseConnection;
  const query = connection.query.bind(connection);
  connection.query = (sql) => {
    if (sql !== 'COMMIT') return query(sql);
    connection.query = query;
    process.send({ event: 'committing' }, () => {
      process.kill(process.pid, 'SIGSTOP');
      query(sql);
    });
  };
}

function now() {
  return Number(process.hrtime.bigint()) / 1e6;
}

process.on('message', async ({ id, command, args }) => {
  try {
    process.send({ id, result: await commands[command](...args) });
  } catch (error) {
    process.send({ id, error: { message: error.message, code: error.code } });
  }
});
process.on('disconnect', () => process.exit());
