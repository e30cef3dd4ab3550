import type { RedisOptions } from 'ioredis';
import pg from 'pg';
import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { STAGES } from './stages/index.js';
import { isOurs, NotHeld, type OpenStage, type StageTools } from './stages/stage.js';
import type { FromWorker, Order, Setup, ToWorker } from './work/messages.js';
import { currentPurchase, Purchase, SoldOut } from './work/purchase.js';
import { recordTransactions } from './work/recorded-postgres.js';
import { RecordedRedis, type RedisRecord } from './work/recorded-redis.js';

/** Runs one stage in one trial after the other, as the runner says. */

const realNow = Date.now;
let trial: Trial | undefined;

interface Trial {
  readonly setup: Setup;
  readonly stage: OpenStage;
  readonly pool: pg.Pool;
  readonly clients: RecordedRedis[];
  readonly record: RedisRecord;
  readonly before: { readonly commands: number; readonly bytes: number };
}

function send(message: FromWorker): void {
  process.send?.(message);
}

async function setUp(setup: Setup): Promise<void> {
  Date.now = () => realNow() + setup.clockOffsetMs;
  const record: RedisRecord = {
    commands: 0,
    purchases: new Map(),
    writesDown: setup.recordCommands,
  };
  const clients: RecordedRedis[] = [];
  const idle: RecordedRedis[] = [];
  const connect = (url = setup.redisUrl, options?: Partial<RedisOptions>): RecordedRedis => {
    const client = new RecordedRedis(url, record, options);
    clients.push(client);
    return client;
  };
  const limit = setup.transactionLimitMs;
  const pool = new pg.Pool({
    connectionString: setup.databaseUrl,
    max: 5,
    application_name: setup.product,
    ...(limit > 0 && { options: `-c transaction_timeout=${limit}` }),
  });
  pool.on('error', () => {}); // the statement that fails reports it
  const redis = connect();
  const tools: StageTools = {
    setup,
    pool,
    redis,
    async nodes(options) {
      const nodes = setup.nodeUrls.map((url) => connect(url, options));
      await Promise.all(nodes.map(isReady));
      return nodes;
    },
    async withConnection(use) {
      const client = idle.pop() ?? connect();
      try {
        return await use(client);
      } finally {
        idle.push(client);
      }
    },
  };
  const stage = STAGES.find(({ id }) => id === setup.stage);
  if (stage === undefined) throw new Error(`There is no stage ${setup.stage}`);
  const open = await stage.open(tools);
  await redis.ping();
  trial = {
    setup,
    stage: open,
    pool,
    clients,
    record,
    before: { commands: record.commands, bytes: bytesOf(clients) },
  };
  send({ say: 'ready' });
}

async function buy({ setup, stage, record: { purchases } }: Trial, order: Order): Promise<void> {
  for (let n = 1; order.times === 0 || n <= order.times; n++) {
    const purchase = new Purchase(setup.product, order, workMs(setup.seed, order, n), send);
    purchases.set(order.lane, purchase);
    await currentPurchase.run(purchase, async () => {
      try {
        await (order.insideTransaction
          ? stage.buyInsideTransaction?.(purchase)
          : stage.buy(purchase));
        purchase.note('sold');
      } catch (error) {
        noteEnd(purchase, error);
      }
      purchase.phase = 'idle';
    });
    if (purchase.isGoingOn && order.times === 0) break;
    await sleep(0);
  }
  send({ say: 'ended', lane: order.lane });
}

async function isReady(client: RecordedRedis): Promise<void> {
  if (client.status !== 'ready') await new Promise<void>((ready) => client.once('ready', ready));
}

/** Draws the same number for the same seed, caller and purchase. */
function workMs(seed: number, { lane, workMs: [from, to] }: Order, n: number): number {
  const hash = createHash('sha256').update(`${seed} ${lane} ${n}`).digest();
  return from + (hash.readUInt32BE() % (to - from + 1));
}

function noteEnd(purchase: Purchase, error: unknown): void {
  if (error instanceof SoldOut) return purchase.note('sold out', error.message);
  if (error instanceof NotHeld) return purchase.note('told late', error.message);
  const { code, message } = error as { code?: string; message: string };
  // An error of the lock says what happened. Any other error is an accident of its own.
  if (typeof code === 'string' && code.startsWith('LOCK_')) purchase.note('refused', code);
  else purchase.note('failed', message);
}

async function tearDown({ stage, pool, clients, record, before }: Trial): Promise<void> {
  const traffic = {
    commands: record.commands - before.commands,
    bytes: bytesOf(clients) - before.bytes,
  };
  await stage.close?.();
  for (const client of clients) client.disconnect();
  await pool.end();
  trial = undefined;
  Date.now = realNow;
  send({ say: 'torn down', traffic });
}

async function askDatabase({ pool }: Trial): Promise<void> {
  const start = performance.now();
  await pool.query('SELECT 1');
  send({ say: 'answered', ms: performance.now() - start });
}

function bytesOf(clients: readonly RecordedRedis[]): number {
  return clients.reduce((sum, { bytes }) => sum + bytes, 0);
}

async function handle(message: ToWorker): Promise<void> {
  if (message.do === 'set up') return setUp(message.setup);
  if (trial === undefined) throw new Error(`Nothing is set up for '${message.do}'`);
  switch (message.do) {
    case 'buy':
      return buy(trial, message.order);
    case 'go':
      return trial.record.purchases.get(message.lane)?.go(message.point);
    case 'go on':
      return trial.record.purchases.get(message.lane)?.goOn();
    case 'ask database':
      return askDatabase(trial);
    case 'tear down':
      return tearDown(trial);
  }
}

process.on('message', (message: ToWorker) => {
  handle(message).catch((error: Error) => send({ say: 'broken', message: String(error.stack) }));
});
process.on('disconnect', () => process.exit());
process.on('unhandledRejection', (reason) => {
  // As in the articles, the timers of stages 14 to 16 ignore errors. In our stage there must not be any.
  if (trial === undefined || !isOurs(trial.setup.stage)) return;
  send({ say: 'broken', message: `unhandled rejection: ${String(reason)}` });
});
recordTransactions();
send({ say: 'ready' });
