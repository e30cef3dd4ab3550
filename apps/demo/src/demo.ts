import { providePostgres, provideRedis } from 'dev-servers';
import { randomBytes } from 'node:crypto';
import type { Cleanup } from './cleanup.js';
import { DemoRedis } from './demo-redis.js';
import { KeptSale } from './kept-sale.js';
import type { DemoOptions } from './options.js';
import type { Progress } from './progress.js';
import { salesLegend, salesTable } from './report.js';
import type { Sale } from './sale.js';
import { flashSaleScenario, type Scenario, workersScenario } from './scenarios.js';
import { Shop } from './shop.js';
import { ShopDatabase } from './shop-database.js';
import { StockApi } from './stock-api.js';
import { whole } from './table.js';
import { playTrap } from './trap/trap.js';
import { trapLegend, trapTable } from './trap/trap-report.js';
import type { Trial } from './trap/trial.js';

const PROCESSES = 3;
/** How often a sale without the lock is repeated, at most, until it goes wrong. */
const UNLOCKED_TRIES = 3;

/** These settings are the same for the sales with and without the lock. */
const STOCK_API_SETTINGS = {
  STOCK_DEMO: '1',
  STOCK_PAUSE_MS: '3',
  DATABASE_POOL_SIZE: '5',
  // Long enough for the last buyer in the queue, so that nobody is sent away as busy.
  LOCK_WAIT_MS: '30000',
  LOCK_LEASE_MS: '10000',
};

/** @returns whether every sale with the lock was exact, and every variant that should avoid the trap did. */
export async function runDemo(
  options: DemoOptions,
  cleanup: Cleanup,
  progress: Progress,
): Promise<boolean> {
  const name = `nestjs_locked_demo_${randomBytes(4).toString('hex')}`;

  progress.say('Starting Redis and PostgreSQL');
  const [redisServer, postgresServer] = await Promise.all([
    cleanup.use(provideRedis, (server) => server.stop()),
    cleanup.use(providePostgres, (server) => server.stop()),
  ]);
  progress.say(`Redis: ${redisServer.source} · PostgreSQL: ${postgresServer.source}`);

  const database = await cleanup.use(
    () => ShopDatabase.create(postgresServer.url, name),
    (created) => created.drop(),
  );
  const redis = await cleanup.use(
    () => DemoRedis.connect(redisServer.url),
    async (connected) => {
      await connected.removeLocks(name).finally(() => connected.close());
    },
  );

  progress.say(`Starting ${PROCESSES} processes of stock-api`);
  const password = randomBytes(6).toString('hex');
  const settings = {
    ...STOCK_API_SETTINGS,
    DATABASE_URL: database.url,
    REDIS_URL: redisServer.url,
    LOCKS_PASSWORD: password,
  };
  const processes = await cleanup.use(
    async () => Array.from({ length: PROCESSES }, () => new StockApi(settings)),
    async (started) => {
      await Promise.all(started.map((process) => process.stop()));
    },
  );
  const origins = await Promise.all(processes.map((process) => process.ready()));
  for (const [n, { pid }] of processes.entries()) {
    progress.say(`stock-api ${n + 1}: pid ${pid}, ${origins[n]}`);
  }

  const shop = new Shop(processes, database, redis, name);
  const sales: Sale[] = [];
  for (const scenario of [workersScenario, flashSaleScenario(options)]) {
    progress.say(scenario.story);
    sales.push(await playUnlocked(shop, scenario, progress));
    sales.push(await play(shop, scenario, true, 'with lock', progress));
  }

  const stage = { database, redisUrl: redisServer.url, name, cleanup };
  const trials = await playTrap(stage, progress);

  console.log(`\n${salesTable(sales)}\n${salesLegend(redisServer.source === 'REDIS_URL')}\n`);
  console.log(`The trap\n\n${trapTable(trials)}\n${trapLegend()}\n`);
  const isSaleExact = concludes(sales);
  const isGood = isEscaped(trials) && isSaleExact;
  if (options.isKept) await keepOpen(processes, { redisUrl: redisServer.url, password }, cleanup);
  return isGood;
}

/** Does not end by itself. */
async function keepOpen(
  processes: readonly StockApi[],
  { redisUrl, password }: { readonly redisUrl: string; readonly password: string },
  cleanup: Cleanup,
): Promise<void> {
  await cleanup.use(
    async () => new KeptSale(processes),
    async (sale) => sale.stop(),
  );
  const [{ origin }] = processes as [StockApi];
  console.log(`
The sale goes on, and one product cannot be sold. Who holds it, and since when? Free it.

  dashboard  ${origin}/locks (user operator, password ${password})
  shell      npm run --silent locks -- ls --redis ${redisUrl}
  health     ${origin}/health
  metrics    ${origin}/metrics

docs/operations.md says how. Ctrl-C ends everything.`);
  await new Promise(() => {});
}

async function playUnlocked(shop: Shop, scenario: Scenario, progress: Progress): Promise<Sale> {
  for (let attempt = 1; ; attempt++) {
    const label = `without lock, try ${attempt} of ${UNLOCKED_TRIES}`;
    const sale = await play(shop, scenario, false, label, progress);
    if (sale.faults.length > 0 || attempt === UNLOCKED_TRIES) return sale;
  }
}

async function play(
  shop: Shop,
  scenario: Scenario,
  isLocked: boolean,
  label: string,
  progress: Progress,
): Promise<Sale> {
  let answered = 0;
  const sale = await progress.during(
    () => `  ${label}: ${whole(answered)} requests answered`,
    shop.play(scenario, isLocked, () => answered++),
  );
  const verdict = sale.faults.length === 0 ? 'exact' : sale.faults.join('; ');
  progress.say(
    `  ${label}: ${whole(answered)} requests in ${sale.seconds.toFixed(1)} s: ${verdict}`,
  );
  return sale;
}

function concludes(sales: readonly Sale[]): boolean {
  for (const sale of sales.filter(({ isLocked, faults }) => !isLocked && faults.length === 0)) {
    console.log(
      `${sale.scenario.name}: by luck exact without the lock, in all ${UNLOCKED_TRIES} tries.`,
    );
  }
  const wrong = sales.filter(({ isLocked, faults }) => isLocked && faults.length > 0);
  for (const { scenario, faults } of wrong) {
    console.log(`WRONG: ${scenario.name} with lock: ${faults.join('; ')}.`);
  }
  if (wrong.length === 0) console.log('Every sale with the lock was exact.');
  return wrong.length === 0;
}

function isEscaped(trials: readonly Trial[]): boolean {
  const faults = trials.flatMap((trial) => trial.faults);
  for (const fault of faults) console.log(`WRONG: ${fault}.`);
  if (faults.length > 0) return false;
  console.log(
    "Out of the trap: 'reject' sold nothing, 'restart' and right nesting sold everything.",
  );
  return true;
}
