import { beforeAll, describe, expect, it } from '@jest/globals';
import type { RedisLockModuleOptions, TransactionTimeouts } from 'nestjs-locked';
import { lockAwareTransactions } from 'nestjs-locked/transactions';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import pg from 'pg';
import type { EntityManager } from 'typeorm';
import { afterTest } from '../support/after-test.js';
import { usePostgres } from '../support/databases.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';
import { openDataSource } from './data-source.js';
import { startLocks } from './locks.js';
import { useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);

const NAMES = [
  'idle_in_transaction_session_timeout',
  'statement_timeout',
  'lock_timeout',
  'transaction_timeout',
] as const;

/** In this order, as milliseconds. */
async function settings(manager: EntityManager): Promise<number[]> {
  const rows = await manager.query<{ name: string; setting: string }[]>(
    'SELECT name, setting FROM pg_settings WHERE name = ANY($1)',
    [NAMES],
  );
  const byName = new Map(rows.map(({ name, setting }) => [name, Number(setting)]));
  return NAMES.map((name) => byName.get(name) as number);
}

/** Sells in a transaction on a session that has limits of its own. @returns what is in force inside */
async function settingsUnder(
  session: string,
  options: Omit<RedisLockModuleOptions, 'connection'>,
): Promise<number[]> {
  const extra = { options: session };
  const dataSource = lockAwareDataSource(
    await openDataSource('postgres', postgres.settings, 2, { extra: extra as never }),
  );
  const { locks } = await startLocks(redis.url, options);
  return locks.withLock(stock.key, () => dataSource.transaction(settings));
}

/** Of a lease of 30 s. */
const OURS = [8_000, 10_000, 10_000] as const;

describe('several locks around one transaction', () => {
  it.each([
    ['outer', 30_000, 3_000],
    ['inner', 3_000, 30_000],
  ])(
    'limit it by the one with the least time left, also if the %s one has more',
    async (...row) => {
      const [, outerMs, innerMs] = row;
      const dataSource = lockAwareDataSource(
        await openDataSource('postgres', postgres.settings, 2),
      );
      const { locks } = await startLocks(redis.url, { fence: {} });
      const [idle, statement, lock] = await locks.withLock(stock.key, { leaseMs: outerMs }, () =>
        locks.withLock(uniqueKey(), { leaseMs: innerMs }, () => dataSource.transaction(settings)),
      );
      expect(idle).toBeGreaterThan(0);
      expect(idle).toBeLessThanOrEqual(800);
      expect(statement).toBeLessThanOrEqual(1_000);
      expect(lock).toBeLessThanOrEqual(1_000);
    },
  );
});

describe('limits that a role or session has by itself', () => {
  it.each([
    ['with the fence', { fence: {} }],
    ['without it', { transactionTimeouts: true }],
  ])('stay if they are stricter, %s [D72]', async (_, options) => {
    const strict = [
      ...['-c idle_in_transaction_session_timeout=600ms', '-c statement_timeout=500'],
      ...['-c lock_timeout=3s', '-c transaction_timeout=1min'],
    ];
    expect(await settingsUnder(strict.join(' '), options)).toEqual([600, 500, 3_000, 60_000]);
  });

  it('are replaced if they are wider, or none', async () => {
    const wide = [
      ...['-c idle_in_transaction_session_timeout=1h', '-c statement_timeout=1d'],
      ...['-c lock_timeout=0', '-c transaction_timeout=2h'],
    ];
    const [idle, statement, lock, total] = await settingsUnder(wide.join(' '), { fence: {} });
    expect([idle, statement, lock]).toEqual(OURS);
    expect(total).toBeGreaterThan(500_000);
    expect(total).toBeLessThanOrEqual(600_000);
  });

  it('stay where 0 was given for ours', async () => {
    const transactionTimeouts = { idleMs: 0, statementMs: 0, lockMs: 0, totalMs: 0 };
    const session = '-c statement_timeout=70s -c transaction_timeout=80s';
    expect(await settingsUnder(session, { transactionTimeouts })).toEqual([0, 70_000, 0, 80_000]);
  });
});

describe('limits of a session that change', () => {
  it('stay if they are stricter, transaction by transaction', async () => {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));
    const { locks } = await startLocks(redis.url, { fence: {} });
    const seen = (): Promise<number[]> =>
      locks.withLock(stock.key, () => dataSource.transaction(settings));
    const statements: (number | undefined)[] = [];
    for (const limit of ['0', '0', "'500ms'", "'500ms'", "'1d'", '0', '0']) {
      await dataSource.query(`SET statement_timeout = ${limit}`);
      statements.push((await seen())[1]);
    }
    expect(statements).toEqual([10_000, 10_000, 500, 500, 10_000, 10_000, 10_000]);
    await dataSource.query('SET lock_timeout = 700');
    expect((await seen()).slice(0, 3)).toEqual([8_000, 10_000, 700]);
  });

  it('are back after the transaction', async () => {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));
    const { locks } = await startLocks(redis.url, { fence: {} });
    for (let n = 0; n < 2; n++) {
      await locks.withLock(stock.key, () => dataSource.transaction(settings));
      expect(await settings(dataSource.manager)).toEqual([0, 0, 0, 0]);
    }
  });
});

describe('savepoints', () => {
  it('that are rolled back leave the limits as they are', async () => {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));
    const { locks } = await startLocks(redis.url, { fence: {} });
    for (let n = 0; n < 2; n++) {
      await locks.withLock(stock.key, () =>
        dataSource.transaction(async (manager) => {
          const nested = manager.transaction(async (inner) => {
            await inner.query('SELECT * FROM nowhere');
          });
          await expect(nested).rejects.toThrow('nowhere');
          expect((await settings(manager)).slice(0, 3)).toEqual(OURS);
          await manager.transaction(async (inner) => {
            expect((await settings(inner)).slice(0, 3)).toEqual(OURS);
          });
          await stock.takeOne(manager, 0);
        }),
      );
    }
    expect(await stock.quantity()).toBe(98);
  });
});

describe('the limit for the COMMIT itself', () => {
  beforeAll(async () => {
    await postgres.query('CREATE TABLE watched (id int)');
    await postgres.query('CREATE TABLE seen (idle text)');
    await postgres.query(
      `CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS
       'BEGIN INSERT INTO seen VALUES (current_setting(''idle_in_transaction_session_timeout''));
       RETURN NULL; END'`,
    );
    await postgres.query(
      `CREATE CONSTRAINT TRIGGER see AFTER INSERT ON watched DEFERRABLE INITIALLY DEFERRED
       FOR EACH ROW EXECUTE FUNCTION see()`,
    );
  });

  it.each([
    ['-c idle_in_transaction_session_timeout=600ms', '600ms'],
    ['-c idle_in_transaction_session_timeout=0', '8s'],
  ])('is not wider than that of the session: %s', async (session, seen) => {
    await postgres.query('TRUNCATE seen');
    const dataSource = lockAwareDataSource(
      await openDataSource('postgres', postgres.settings, 2, {
        extra: { options: session } as never,
      }),
    );
    const { locks } = await startLocks(redis.url, { fence: {} });
    await locks.withLock(stock.key, () =>
      dataSource.transaction((manager) => manager.query('INSERT INTO watched VALUES (1)')),
    );
    expect(await postgres.query('SELECT idle FROM seen')).toEqual([{ idle: seen }]);
  });
});

describe('a transaction under a lock for which nothing is armed, and whose body sends nothing', () => {
  it.each<[string, TransactionTimeouts, boolean]>([
    ['every limit is 0', { idleMs: 0, statementMs: 0, lockMs: 0, totalMs: 0 }, true],
    ['those that its driver survives are 0', { statementMs: 0, lockMs: 0 }, false],
  ])('commits: %s', async (_, transactionTimeouts, survivesDisconnect) => {
    const pool = new pg.Pool({ connectionString: postgres.url });
    afterTest(() => pool.end());
    const run = lockAwareTransactions<pg.PoolClient>({
      dialect: 'postgres',
      pool,
      survivesDisconnect,
    });
    const { locks } = await startLocks(redis.url, { transactionTimeouts });
    const told = locks.withLock(stock.key, () =>
      run(async (wrap) => {
        const client = await pool.connect();
        try {
          await client.query('BEGIN');
          const result = await wrap(client, () => Promise.resolve('nothing to do'));
          await client.query('COMMIT');
          return result;
        } finally {
          client.release();
        }
      }),
    );
    expect(await told).toBe('nothing to do');
  });
});
