/**
 * How much more a transaction under a lock costs than one without, on a PostgreSQL and a Redis of this machine:
 *
 *     npm run bench:transactions
 *
 * Each row is a ratio to the plain transaction of the same round. The rounds of all rows are interleaved, and the
 * median of the rounds counts. Beside it stands how often PostgreSQL was asked and has answered.
 *
 * `SELECT … FOR UPDATE` is what guards a single row of a single database without any of this.
 */
import { NestFactory } from '@nestjs/core';
import { providePostgres, provideRedis } from 'dev-servers';
import { LockService, RedisLockModule } from 'nestjs-locked';
import { createFenceTable } from 'nestjs-locked/fence';
import { lockAware } from 'nestjs-locked/typeorm';
import { DataSource } from 'typeorm';

import 'reflect-metadata';

const ROUNDS = 15;
const TRANSACTIONS = 200;
const KEYS = 50;

const [redis, postgres] = await Promise.all([provideRedis(), providePostgres()]);
const url = postgres.url;
const admin = await new DataSource({ type: 'postgres', url }).initialize();
await admin.query('CREATE TABLE IF NOT EXISTS bench_stock (id text PRIMARY KEY, quantity int)');
await createFenceTable((sql) => admin.query(sql), { dialect: 'postgres', table: 'bench_fence' });
for (let n = 0; n < KEYS; n += 1) {
  await admin.query('INSERT INTO bench_stock VALUES ($1, 0) ON CONFLICT DO NOTHING', [`p${n}`]);
}

const fence = { table: 'bench_fence' };
const variants = [
  await variant('plain transaction', { aware: false }),
  await variant('plain, SELECT … FOR UPDATE', { aware: false, forUpdate: true }),
  await variant('known to the locks, no lock held', { aware: true }),
  await variant('under a lock, no fence', { aware: true, lock: {} }),
  await variant('under a lock, fence', {
    aware: true,
    lock: { fence, transactionTimeouts: false },
  }),
  await variant('under a lock, fence and time-outs', { aware: true, lock: { fence } }),
  await variant('the same, SELECT … FOR UPDATE', {
    aware: true,
    lock: { fence },
    forUpdate: true,
  }),
  await variant('a lock around each, no fence', { aware: true, lock: {}, order: 'around' }),
  await variant('a lock inside of each, restart', {
    aware: true,
    lock: { insideTransaction: 'restart' },
    order: 'inside',
  }),
];

const rounds = variants.map(() => []);
for (let round = -1; round < ROUNDS; round += 1) {
  for (const [i, { run }] of variants.entries()) {
    const ms = await run();
    if (round >= 0) rounds[i].push(ms); // the first round warms up
  }
}

const plain = median(rounds[0]);
console.log(
  `\n${ROUNDS} rounds of ${TRANSACTIONS} transactions (read + write), one client, median round\n`,
);
for (const [i, { name, trips }] of variants.entries()) {
  const ms = median(rounds[i]);
  const more =
    i === 0
      ? ''
      : `  ${ms < plain ? '' : '+'}${(ms - plain).toFixed(3)} ms  ×${(ms / plain).toFixed(2)}`;
  console.log(`${name.padEnd(36)} ${trips()} round trips  ${ms.toFixed(3)} ms${more}`);
}

// For the scenario of this name, which runs this file as a program of its own.
process.send?.(variants.map(({ name }, i) => ({ name, ms: rounds[i] })));

for (const { close } of variants) await close();
await admin.query('DROP TABLE bench_stock, bench_fence');
await admin.destroy();
await Promise.all([redis.stop(), postgres.stop()]);

/**
 * @param {string} name
 * @param {object} how
 * @param {'outside' | 'around' | 'inside'} [how.order] outside: there is one lock around everything that is measured,
 * because the cost of the transaction is wanted. Otherwise each transaction takes a lock of its own, which costs two
 * Redis commands.
 */
async function variant(name, { aware, lock, order = 'outside', forUpdate = false }) {
  const dataSource = await new DataSource({ type: 'postgres', url, poolSize: 1 }).initialize();
  let [answers, transactionCount] = [0, 0];
  await dataSource.driver.master.connect().then((client) => {
    client.connection.on('readyForQuery', () => (answers += 1));
    client.release();
  });
  if (aware) lockAware(dataSource);
  const application =
    lock &&
    (await NestFactory.createApplicationContext(
      RedisLockModule.forRoot({ connection: redis.url, ...lock }),
      { logger: false },
    ));
  const locks = application?.get(LockService);
  const sell = async (manager, id) => {
    const locking = forUpdate ? ' FOR UPDATE' : '';
    await manager.query(`SELECT quantity FROM bench_stock WHERE id = $1${locking}`, [id]);
    await manager.query('UPDATE bench_stock SET quantity = quantity + 1 WHERE id = $1', [id]);
  };
  const transactions = {
    outside: (id) => dataSource.transaction((manager) => sell(manager, id)),
    around: (id) => locks.withLock(id, () => transactions.outside(id)),
    inside: (id) =>
      dataSource.transaction((manager) => locks.withLock(id, () => sell(manager, id))),
  };
  const measured = async () => {
    const from = performance.now();
    for (let n = 0; n < TRANSACTIONS; n += 1) await transactions[order](`p${n % KEYS}`);
    transactionCount += TRANSACTIONS;
    return (performance.now() - from) / TRANSACTIONS;
  };
  return {
    name,
    trips: () => Math.round(answers / transactionCount),
    run: () =>
      locks && order === 'outside' ? locks.withLock(`bench-${process.pid}`, measured) : measured(),
    close: async () => {
      await application?.close();
      await dataSource.destroy();
    },
  };
}

function median(values) {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
}
