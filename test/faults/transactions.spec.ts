import { beforeAll, beforeEach, describe, expect } from '@jest/globals';
import { fenceTableSql } from 'nestjs-locked/transactions';
import { setTimeout as sleep } from 'node:timers/promises';
import { usePostgres } from '../support/databases.js';
import { fault } from '../support/fault-report.js';
import { sharedNow } from '../support/lock-process.js';
import { SaleProcess, type SaleProcessOptions } from '../support/sale-process.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const LEASE_MS = 1_500;
const PAUSE_MS = 4_500;
/** Upper bound for what takes milliseconds on an idle machine. */
const SOON_MS = 2_500;

/** 10,000 in `npm run faults -- --long`. */
const HAND_OVERS = process.env['FAULTS_LONG'] === '1' ? 10_000 : 300;

const redis = useRedis();
const postgres = usePostgres();
let product: string;
let key: string;

beforeAll(async () => {
  await postgres.query('CREATE TABLE stock (id text PRIMARY KEY, quantity int NOT NULL)');
  await postgres.query('CREATE TABLE sold (product text NOT NULL)');
  await postgres.query(fenceTableSql({ dialect: 'postgres' }));
});

beforeEach(async () => {
  product = uniqueKey('product');
  key = `stock:${product}`;
  await postgres.query('INSERT INTO stock VALUES ($1, 10)', [product]);
});

const start = (lockOptions: SaleProcessOptions['lockOptions']): Promise<SaleProcess> =>
  SaleProcess.start({
    redisUrl: redis.url,
    settings: postgres.settings,
    lockOptions: { leaseMs: LEASE_MS, waitMs: 20_000, ...lockOptions },
  });

const quantity = async (): Promise<number> => {
  const sql = 'SELECT quantity FROM stock WHERE id = $1';
  const [row] = await postgres.query<{ quantity: number }>(sql, [product]);
  return row?.quantity as number;
};

/** How many sales were committed, whatever their callers were told. */
const sales = async (): Promise<number> =>
  (await postgres.query('SELECT FROM sold WHERE product = $1', [product])).length;

/** The possible outcomes of a COMMIT that was executed after its lease. The reply may come too late. */
const LATE = ['committed', 'LOCK_COMMIT_UNKNOWN'];

/** Pauses one process between its gate and its COMMIT, while another one sells. */
async function sellBeside(lockOptions: SaleProcessOptions['lockOptions']) {
  const [paused, other] = await Promise.all([start(lockOptions), start(lockOptions)]);
  const { sale } = await paused.sellAndPause({ key, product });
  const pausedAt = sharedNow();
  const next = other.sell({ key, product });
  await sleep(PAUSE_MS);
  paused.resume();
  const first = await sale.then(
    () => 'committed' as const,
    (error: { code?: string }) => error.code ?? 'failed',
  );
  const second = await next;
  return {
    first,
    enteredAfter: second.entered - pausedAt,
    claimedAfter: second.claimed - pausedAt,
  };
}

describe('a holder paused (SIGSTOP) between its gate and its COMMIT, past its lease', () => {
  fault(
    'fence and time-outs on',
    'the successor claims soon after the lease, the COMMIT fails, the books balance [R53, G11]',
    async (measure) => {
      const { first, enteredAfter, claimedAfter } = await sellBeside({ fence: {} });
      measure('successor entered after', enteredAfter, 'ms');
      measure('claimed after', claimedAfter, 'ms');
      measure('the paused COMMIT', first);
      expect(claimedAfter).toBeLessThan(LEASE_MS + SOON_MS);
      expect(first).not.toBe('committed');
      expect([await sales(), await quantity()]).toEqual([1, 9]);
    },
  );

  fault(
    'time-outs off, fence on',
    'the successor claims when the paused one has committed, the books balance [G11]',
    async (measure) => {
      const options = { fence: {}, transactionTimeouts: false };
      const { first, enteredAfter, claimedAfter } = await sellBeside(options);
      measure('successor entered after', enteredAfter, 'ms');
      measure('claimed after', claimedAfter, 'ms');
      expect(enteredAfter).toBeLessThan(LEASE_MS + SOON_MS);
      expect(claimedAfter).toBeGreaterThan(PAUSE_MS - 500);
      expect(LATE).toContain(first);
      expect([await sales(), await quantity()]).toEqual([2, 8]);
    },
  );

  fault(
    'time-outs on, fence off',
    'the database has ended it before the successor enters, the books balance',
    async (measure) => {
      const { first, enteredAfter } = await sellBeside({ transactionTimeouts: true });
      measure('successor entered after', enteredAfter, 'ms');
      expect(enteredAfter).toBeLessThan(LEASE_MS + SOON_MS);
      expect(first).not.toBe('committed');
      expect([await sales(), await quantity()]).toEqual([1, 9]);
    },
  );

  fault(
    'neither fence nor time-outs',
    'one of the two sales is lost, which fence and time-outs prevent',
    async (measure) => {
      const { first } = await sellBeside({});
      measure('final stock after two sales from 10', await quantity());
      expect(LATE).toContain(first);
      expect([await sales(), await quantity()]).toEqual([2, 9]);
    },
  );
});

describe('hand-overs between processes', () => {
  fault(
    'a second connection reads right after the next holder entered',
    'it always sees the commit of the previous holder [R51]',
    async (measure) => {
      const lockOptions = { leaseMs: 30_000, waitMs: 60_000, localHandovers: 0 };
      const counters = await Promise.all(Array.from({ length: 3 }, () => start(lockOptions)));
      const times = Math.ceil(HAND_OVERS / counters.length);
      const startedAt = performance.now();
      const stale = await Promise.all(counters.map((one) => one.count({ key, product, times })));
      measure('hand-overs', times * counters.length);
      measure(
        'stale reads',
        stale.reduce((sum, one) => sum + one),
      );
      measure('each took', (performance.now() - startedAt) / (times * counters.length), 'ms');
      expect(stale).toEqual([0, 0, 0]);
      expect(await quantity()).toBe(10 + times * counters.length);
    },
    300_000,
  );
});
