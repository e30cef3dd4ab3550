/**
 * How much more a transaction under a lock costs than one without, on a PostgreSQL and a Redis of this machine:
 *
 *     npm run bench:transactions
 *     npm run bench:transactions -- --only around      the plain ones, and the rows whose name contains `around`
 *
 * Each row is an application of its own, through TypeORM's data source or through nestjs-cls, and a ratio to the plain
 * transaction that is opened in the same way, in the same round. The rounds of all rows are interleaved, and the median
 * of the rounds counts. Beside it stands how often PostgreSQL has answered.
 *
 * `SELECT … FOR UPDATE` is what guards a single row of a single database without any of this.
 */
import { providePostgres, provideRedis } from 'dev-servers';
import { ChildProgram } from 'kit';
import { createFenceTable } from 'nestjs-locked/transactions';
import { DataSource } from 'typeorm';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const ROUNDS = 15;
const TRANSACTIONS = 200;
const KEYS = 50;
const APPLICATION = fileURLToPath(new URL('transactions/application.mjs', import.meta.url));
const PLAIN = 'plain transaction';

const { values: options } = parseArgs({ options: { only: { type: 'string', default: '' } } });

const fence = { table: 'bench_fence' };
const fenceAlone = { fence, transactionTimeouts: false };
const ROWS = [
  { name: PLAIN, aware: false },
  { name: 'plain, SELECT … FOR UPDATE', aware: false, forUpdate: true },
  { name: 'known to the locks, no lock held' },
  { name: 'under a lock, no fence', lock: {} },
  { name: 'under a lock, fence', lock: fenceAlone },
  { name: 'under a lock, fence and time-outs', lock: { fence } },
  { name: 'the same, SELECT … FOR UPDATE', lock: { fence }, forUpdate: true },
  { name: 'a lock around each, plain transaction', aware: false, lock: {}, order: 'around' },
  { name: 'a lock around each, no fence', lock: {}, order: 'around' },
  { name: 'a lock around each, fence and time-outs', lock: { fence }, order: 'around' },
  {
    name: 'a lock inside of each, restart',
    lock: { insideTransaction: 'restart' },
    order: 'inside',
  },
];
const rows = ['data source', 'nestjs-cls'].flatMap((through) =>
  ROWS.filter(({ name }) => name === PLAIN || name.includes(options.only)).map((row) => ({
    ...row,
    through,
  })),
);

const [redis, postgres] = await Promise.all([provideRedis(), providePostgres()]);
const admin = await new DataSource({ type: 'postgres', url: postgres.url }).initialize();
await admin.query('CREATE TABLE IF NOT EXISTS bench_stock (id text PRIMARY KEY, quantity int)');
await createFenceTable((sql) => admin.query(sql), { dialect: 'postgres', table: 'bench_fence' });
for (let n = 0; n < KEYS; n += 1) {
  await admin.query('INSERT INTO bench_stock VALUES ($1, 0) ON CONFLICT DO NOTHING', [`p${n}`]);
}

const applications = [];
for (const row of rows) applications.push(await start(row));

const rounds = applications.map(() => []);
for (let round = -1; round < ROUNDS; round += 1) {
  for (const [i, { run }] of applications.entries()) {
    const measured = await run();
    if (round >= 0) rounds[i].push(measured); // the first round warms up
  }
}

console.log(
  `\n${ROUNDS} rounds of ${TRANSACTIONS} transactions (read + write), one client, median round`,
);
const plainOf = new Map();
for (const [i, { name, through }] of rows.entries()) {
  const ms = median(rounds[i].map((measured) => measured.ms));
  const trips = Math.round(median(rounds[i].map(({ roundTrips }) => roundTrips)));
  if (name === PLAIN) {
    plainOf.set(through, ms);
    console.log(`\nthrough ${through}`);
  }
  const plain = plainOf.get(through);
  const more = `${ms < plain ? '' : '+'}${(ms - plain).toFixed(3)} ms  ×${(ms / plain).toFixed(2)}`;
  console.log(`${name.padEnd(40)} ${trips} round trips  ${ms.toFixed(3)} ms  ${more}`);
}

// For the scenario of this name, which runs this file as a program of its own.
process.send?.(
  rows.map(({ name, through }, i) => ({ name, through, ms: rounds[i].map(({ ms }) => ms) })),
);

for (const { stop } of applications) await stop();
await admin.query('DROP TABLE bench_stock, bench_fence');
await admin.destroy();
await Promise.all([redis.stop(), postgres.stop()]);

/** @param {import('./transactions/application.mjs').Row} row */
async function start(row) {
  const settings = {
    row,
    postgresUrl: postgres.url,
    redisUrl: redis.url,
    transactions: TRANSACTIONS,
    keys: KEYS,
  };
  const application = new ChildProgram(APPLICATION, { args: [JSON.stringify(settings)] });
  await application.nextMessage();
  return {
    run: () => {
      application.tell('run');
      return application.nextMessage();
    },
    stop: () => application.kill(),
  };
}

function median(values) {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
}
