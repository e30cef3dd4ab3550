import { beforeAll, describe, expect, it } from '@jest/globals';
import {
  LockLostError,
  type LockOptions,
  type LockService,
  type RedisLockModuleOptions,
  type TransactionTimeouts,
} from 'nestjs-locked';
import { lockAwareTransactions } from 'nestjs-locked/transactions';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import pg from 'pg';
import type { DataSource, EntityManager } from 'typeorm';
import { setTimeout as sleep } from 'node:timers/promises';
import { LockInTransactionError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { ArmedTimeouts } from '../../libs/nestjs-locked/src/transactions/sql/armed-timeouts.js';
import type {
  TransactionBounds,
  TransactionStatus,
} from '../../libs/nestjs-locked/src/transactions/sql/database-session.js';
import { KnownDatabase } from '../../libs/nestjs-locked/src/transactions/sql/known-database.js';
import {
  ExpectedLimits,
  SessionLimits,
} from '../../libs/nestjs-locked/src/transactions/sql/session-limits.js';
import { sessionOf } from '../../libs/nestjs-locked/src/transactions/sql/session-of.js';
import { afterTest } from '../support/after-test.js';
import { usePostgres } from '../support/databases.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { useStock } from './stock.js';

describe('time limits in the database', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  const NAMES = [
    'idle_in_transaction_session_timeout',
    'statement_timeout',
    'lock_timeout',
    'transaction_timeout',
  ] as const;

  /** The values of `NAMES`, in milliseconds. */
  async function settings(manager: EntityManager): Promise<number[]> {
    const rows = await manager.query<{ name: string; setting: string }[]>(
      'SELECT name, setting FROM pg_settings WHERE name = ANY($1)',
      [NAMES],
    );
    const byName = new Map(rows.map(({ name, setting }) => [name, Number(setting)]));
    return NAMES.map((name) => byName.get(name) as number);
  }

  /** Sells in a transaction on a session with its own limits. @returns the settings inside the transaction */
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

  /** The time-outs for a lease of 30 s. */
  const OURS = [8_000, 10_000, 10_000] as const;

  describe('several locks around one transaction', () => {
    it.each([
      ['outer', 30_000, 3_000],
      ['inner', 3_000, 30_000],
    ])(
      'limit it by the one with the least time left, even if the %s one has more',
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

  it.each([
    ['with the fence', { fence: {} }],
    ['without it', { transactionTimeouts: true }],
  ])(
    'are those of the whole lease under a short first one, which is renewed before, %s',
    async (_, options) => {
      const dataSource = lockAwareDataSource(
        await openDataSource('postgres', postgres.settings, 2),
      );
      const { locks } = await startLocks(redis.url, { ...options, firstLeaseMs: 3_000 });
      await locks.withLock(stock.key, async (lock) => {
        expect(lock.remainingMs()).toBeLessThanOrEqual(3_000);
        const [idle, statement] = await dataSource.transaction(settings);
        expect([idle, statement]).toEqual(OURS.slice(0, 2));
        expect(lock.remainingMs()).toBeGreaterThan(20_000);
      });
    },
  );

  describe('limits that a role or session already has', () => {
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

    it('are replaced if they are wider or absent', async () => {
      const wide = [
        ...['-c idle_in_transaction_session_timeout=1h', '-c statement_timeout=1d'],
        ...['-c lock_timeout=0', '-c transaction_timeout=2h'],
      ];
      const [idle, statement, lock, total] = await settingsUnder(wide.join(' '), { fence: {} });
      expect([idle, statement, lock]).toEqual(OURS);
      expect(total).toBeGreaterThan(500_000);
      expect(total).toBeLessThanOrEqual(600_000);
    });

    it('stay if 0 was given for ours', async () => {
      const transactionTimeouts = { idleMs: 0, statementMs: 0, lockMs: 0, totalMs: 0 };
      const session = '-c statement_timeout=70s -c transaction_timeout=80s';
      expect(await settingsUnder(session, { transactionTimeouts })).toEqual([0, 70_000, 0, 80_000]);
    });
  });

  describe('limits of a session that change', () => {
    it('stay if they are stricter, transaction by transaction', async () => {
      const dataSource = lockAwareDataSource(
        await openDataSource('postgres', postgres.settings, 1),
      );
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

    it('are restored after the transaction', async () => {
      const dataSource = lockAwareDataSource(
        await openDataSource('postgres', postgres.settings, 1),
      );
      const { locks } = await startLocks(redis.url, { fence: {} });
      for (let n = 0; n < 2; n++) {
        await locks.withLock(stock.key, () => dataSource.transaction(settings));
        expect(await settings(dataSource.manager)).toEqual([0, 0, 0, 0]);
      }
    });
  });

  describe('savepoints', () => {
    it('that are rolled back do not change the limits', async () => {
      const dataSource = lockAwareDataSource(
        await openDataSource('postgres', postgres.settings, 1),
      );
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
      ['the limits that its driver survives are 0', { statementMs: 0, lockMs: 0 }, false],
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
});

describe('errors of armed time limits', () => {
  const HINT = /\[the database ends a transaction under a lock.*transactionTimeouts: /;

  /** Arms time-outs as a transaction does. */
  const armed = async (
    bounds: TransactionBounds,
    {
      dialect = 'postgres',
      survives = true,
    }: { dialect?: 'postgres' | 'mysql'; survives?: boolean } = {},
  ): Promise<{ timeouts: ArmedTimeouts; sent: unknown[] }> => {
    const timeouts = new ArmedTimeouts();
    const sent: unknown[] = [];
    const session = sessionOf(dialect, async (_, params) => {
      sent.push(...params);
      return [{ answer: '' }];
    });
    await timeouts.watch(session, survives)?.arm(bounds);
    return { timeouts, sent };
  };

  const explained = (timeouts: ArmedTimeouts, error: Error): string => {
    timeouts.explain(error);
    return error.message;
  };

  const withCode = (code: string): Error => Object.assign(new Error('it took too long'), { code });

  describe('an error of the database', () => {
    it.each([
      ['25P03', { idleMs: 150 }],
      ['25P04', { totalMs: 150 }],
      ['57014', { statementMs: 150 }],
      ['55P03', { lockMs: 150 }],
    ])('%s names the option that it comes from: %j [D91]', async (code, bounds) => {
      const { timeouts } = await armed(bounds);
      const error = withCode(code);
      const message = explained(timeouts, error);
      expect(message).toMatch(HINT);
      expect(message).toContain(`${Object.keys(bounds)[0]} 150`);
      expect(error.stack).toContain(message);
    });

    it('is reported once, and is otherwise unchanged', async () => {
      const { timeouts } = await armed({ idleMs: 150 });
      const error = withCode('25P03');
      const once = explained(timeouts, error);
      expect(explained(timeouts, error)).toBe(once);
      expect(error).toMatchObject({ name: 'Error', code: '25P03' });
    });

    it.each([
      ['caused by a limit that is not ours', withCode('57014'), { idleMs: 150 }],
      ['of another kind', withCode('23505'), { idleMs: 1, statementMs: 150 }],
      ['of a lock', new LockLostError('is not queryable', 'key', 'expired'), { idleMs: 1 }],
      ['of the application', new Error('no stock'), { idleMs: 1 }],
    ])('%s is not changed', async (_, error, bounds) => {
      const { timeouts } = await armed(bounds);
      await sleep(5);
      expect(explained(timeouts, error)).not.toMatch(HINT);
    });

    it('is not changed where no time-out can be armed', async () => {
      const { timeouts } = await armed({ idleMs: 1 }, { dialect: 'mysql' });
      await sleep(5);
      const error = new Error('Connection terminated unexpectedly');
      expect(explained(timeouts, error)).not.toMatch(HINT);
    });
  });

  describe('a lost connection', () => {
    const lost = (): Error =>
      new Error('Failed query: rollback', { cause: new Error('Client is not queryable') });

    it('may be lost because it was idle for long enough', async () => {
      const { timeouts } = await armed({ idleMs: 2_000 });
      expect(explained(timeouts, lost())).not.toMatch(HINT);
      await sleep(2_100);
      expect(explained(timeouts, lost())).toMatch(HINT);
    });
  });

  it('time-outs that end connections are not armed for a driver that does not survive them', async () => {
    const { sent } = await armed(
      { idleMs: 1, totalMs: 2, statementMs: 3, lockMs: 4 },
      { survives: false },
    );
    expect(sent).toEqual(['3', '4']);
  });
});

describe('limits of the session', () => {
  const BOUNDS: TransactionBounds = {
    idleMs: 8_000,
    statementMs: 10_000,
    lockMs: 10_000.7,
    totalMs: 600_000,
  };

  const settings = (shown: string): string[] | undefined =>
    ExpectedLimits.parse(shown)
      ?.armingFor(BOUNDS, Infinity)
      .settings.map(({ name, value }) => `${name}=${value}`);

  describe('the limits that a session has', () => {
    it.each([
      ['none', '170000 0 0 0 0', ['8000', '10000', '10000', '600000']],
      ['wider ones', '170000 1h 1d 11s 0', ['8000', '10000', '10000', '600000']],
      ['stricter ones', '180004 600ms 500ms 3s 1min', []],
      ['the same', '180004 8s 10s 10s 10min', []],
      ['one that runs and is wider', '180004 1s 1s 1s 2h', ['0', '600000']],
      ['a server without a limit of the whole transaction', '150018 0 1s 0', ['8000', '10000']],
      ['a server that is older than this limit, but has one', '160000 0 1s 1s 0', ['8000']],
    ])('%s: ours are set if they are stricter', (_, shown, values) => {
      expect(settings(shown)?.map((setting) => setting.split('=')[1])).toEqual(values);
    });

    it.each(['', '180004', '180004 0 0', '180004 1fortnight 0 0 0', 'v24.1 on 0 0 0 0'])(
      'are not guessed: %j',
      (shown) => {
        expect(settings(shown)).toBeUndefined();
      },
    );

    it('are no longer expected if each session has others', () => {
      const limits = new SessionLimits();
      for (let n = 1; n < 100; n++) limits.learn(`180004 ${n}ms 0 0 0`);
      expect(limits.expected).toBeUndefined();
    });
  });

  describe('a claim that arms time-outs', () => {
    /** A database that refuses a claim that expects limits other than its own. */
    const open = (shown: string) => {
      const sent: string[] = [];
      const state = { shown, fenced: false };
      const database = new KnownDatabase();
      const query = async (sql: string, params: unknown[]): Promise<unknown> => {
        sent.push(
          /^WITH former/.test(sql) ? 'general' : /^SELECT concat_ws/.test(sql) ? 'newest' : 'short',
        );
        if (sent.at(-1) === 'newest') return [{ answer: '9' }];
        const meetsExpectation = sent.at(-1) === 'general' || params.includes(state.shown);
        if (state.fenced || !meetsExpectation) return [];
        return [{ answer: `${sent.at(-1) === 'general' ? state.shown : ''}|a` }];
      };
      const claim = async (): Promise<string> => {
        const session = sessionOf('postgres', query, database);
        return (
          await session.claim(
            't',
            [{ key: 'a', fencingNumber: 5, isShared: false }],
            BOUNDS,
            Infinity,
          )
        ).kind;
      };
      /** Claims twice in one session; the second claim finds what the first has armed. */
      const claimTwice = async (armed: string): Promise<void> => {
        const session = sessionOf('postgres', query, database);
        const own = state.shown;
        for (const now of [own, armed]) {
          state.shown = now;
          await session.claim(
            't',
            [{ key: 'a', fencingNumber: 5, isShared: false }],
            BOUNDS,
            Infinity,
          );
        }
        state.shown = own;
      };
      return { sent, state, claim, claimTwice };
    };

    it('needs the long statement only once', async () => {
      const { sent, claim } = open('180004 0 0 0 0');
      expect([await claim(), await claim(), await claim()]).toEqual(Array(3).fill('claimed'));
      expect(sent).toEqual(['general', 'short', 'short']);
    });

    it('detects other limits with the short one, and remembers them', async () => {
      const { sent, state, claim } = open('180004 0 0 0 0');
      await claim();
      state.shown = '180004 1min 0 0 0';
      expect([await claim(), await claim()]).toEqual(['claimed', 'claimed']);
      expect(sent).toEqual(['general', 'short', 'general', 'short']);
    });

    it('is refused for a newer token, not for limits that were expected', async () => {
      const { sent, state, claim } = open('180004 0 0 0 0');
      await claim();
      state.fenced = true;
      expect(await claim()).toBe('fenced');
      expect(sent).toEqual(['general', 'short', 'general', 'newest']);
    });

    it('does not mistake its own armed limits for those of the session', async () => {
      const { sent, claim, claimTwice } = open('180004 0 0 0 0');
      await claimTwice('180004 1min 0 0 0');
      await claim();
      expect(sent).toEqual(['general', 'general', 'short']);
    });

    it('keeps using the long one on a server of another kind', async () => {
      const { sent, claim } = open('something else');
      await claim();
      await claim();
      expect(sent).toEqual(['general', 'general']);
    });
  });

  describe('before COMMIT', () => {
    const asks = async (status?: TransactionStatus, idleMs?: number): Promise<string[]> => {
      const sent: string[] = [];
      const session = sessionOf(
        'postgres',
        async (sql) => {
          sent.push(sql.split(' ', 1)[0] as string);
          return [{ answer: 'inside' }];
        },
        new KnownDatabase(),
        status === undefined ? undefined : { transactionStatus: status },
      );
      await session.beforeCommit(idleMs);
      return sent;
    };

    it('nothing is sent if the driver knows that the transaction is usable', async () => {
      expect(await asks('open')).toEqual([]);
    });

    it('the database is asked unless the driver knows that the transaction is usable', async () => {
      expect([await asks(), await asks('failed')]).toEqual([['SELECT'], ['SELECT']]);
    });

    it('nothing may be committed if the driver knows of no transaction', async () => {
      await expect(asks('none')).rejects.toBeInstanceOf(LockInTransactionError);
      await expect(asks('none', 500)).rejects.toThrow(
        /has ended the transaction before its COMMIT/,
      );
    });

    it('a time-out for the COMMIT is armed, whatever the driver knows', async () => {
      expect(await asks('open', 500)).toEqual(['SELECT']);
    });
  });
});

describe('long durations', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  /** Longer than PostgreSQL accepts as a time-out. */
  const LONG_MS = 3_000_000_000;

  const CASES: [string, LockOptions, TransactionTimeouts | false][] = [
    ['leaseMs', { leaseMs: LONG_MS, maxHoldMs: Infinity }, {}],
    ['maxHoldMs', { maxHoldMs: LONG_MS }, {}],
    ['idleMs', {}, { idleMs: LONG_MS }],
    ['statementMs', {}, { statementMs: LONG_MS }],
    ['lockMs', {}, { lockMs: LONG_MS }],
    ['totalMs', {}, { totalMs: LONG_MS }],
    ['waitMs without a limit of ours', { waitMs: LONG_MS }, false],
    ['waitMs without a limit for locks', { waitMs: LONG_MS }, { lockMs: 0 }],
  ];

  describe('a duration that is longer than a time-out of PostgreSQL can be', () => {
    it.each(CASES)('is accepted, also by later transactions: %s', async (_, options, timeouts) => {
      const dataSource = lockAwareDataSource(
        await openDataSource('postgres', postgres.settings, 1),
      );
      const { locks } = await startLocks(redis.url, { fence: true, transactionTimeouts: timeouts });
      const sell = (): Promise<void> =>
        locks.withLock(stock.key, options, () =>
          dataSource.transaction((manager) => stock.takeOne(manager)),
        );
      await sell();
      await sell(); // now the limits of the session are known
      expect(await stock.quantity()).toBe(98);
    });

    it('is accepted by the gate after a rollback has undone the armed time-outs', async () => {
      const dataSource = lockAwareDataSource(
        await openDataSource('postgres', postgres.settings, 1),
      );
      const { locks } = await startLocks(redis.url, {
        insideTransaction: 'join',
        transactionTimeouts: { idleMs: LONG_MS },
      });
      await dataSource.transaction(async (manager) => {
        const nested = manager.transaction(async (inner) => {
          await locks.withLock(stock.key, () => inner.query('SELECT 1'));
          throw new Error('undone');
        });
        await expect(nested).rejects.toThrow('undone');
        await stock.takeOne(manager);
      });
      expect(await stock.quantity()).toBe(99);
    });
  });
});

describe('holdAtLeastMs', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  const KEEP = { holdAtLeastMs: 5_000 } as const;

  const held = (): Promise<boolean> => isHeld(redis.url, stock.key);

  interface Shop {
    readonly dataSource: DataSource;
    readonly locks: LockService;
    /** Takes one piece under the lock, whose key is kept after the work. */
    readonly sell: (manager: EntityManager) => Promise<void>;
  }

  async function startShop(insideTransaction: 'restart' | 'join' = 'join'): Promise<Shop> {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings));
    const { locks } = await startLocks(redis.url, { insideTransaction });
    const sell = (manager: EntityManager): Promise<void> =>
      locks.withLock(stock.key, KEEP, () => stock.takeOne(manager));
    return { dataSource, locks, sell };
  }

  describe.each(['restart', 'join'] as const)(
    'a key stays taken after committed work, with %s',
    (how) => {
      it.each<[string, (shop: Shop) => Promise<unknown>]>([
        ['taken inside', ({ dataSource, sell }) => dataSource.transaction(sell)],
        [
          'taken inside, in a second transaction',
          ({ dataSource, sell }) => dataSource.transaction(() => dataSource.transaction(sell)),
        ],
        [
          'taken inside, even by a later call that asks for less',
          ({ dataSource, locks, sell }) =>
            dataSource.transaction(async (manager) => {
              await sell(manager);
              await locks.withLock(stock.key, { holdAtLeastMs: 1 }, () => {});
            }),
        ],
        [
          'held around',
          ({ dataSource, locks, sell }) =>
            locks.withLock(stock.key, () => dataSource.transaction(sell)),
        ],
        [
          'held outside, by a call that ends before the transaction',
          async ({ dataSource, locks, sell }) => {
            let sale: Promise<unknown> = Promise.resolve();
            await locks.withLock(stock.key, async () => {
              sale = dataSource.transaction(async (manager) => {
                await sell(manager);
                await sleep(200);
              });
              await sleep(100);
            });
            await sale.catch(() => {}); // the sale is refused, but its call has done its work
          },
        ],
        [
          'acquired, and released in the body',
          async ({ dataSource, locks, sell }) => {
            const lock = await locks.acquire(stock.key);
            await dataSource.transaction(async (manager) => {
              await lock.run(() => sell(manager));
              await lock.release();
            });
          },
        ],
      ])('%s', async (_, sale) => {
        await sale(await startShop(how));
        expect(await held()).toBe(true);
      });
    },
  );

  it('A key stays taken for an ordinary lock whose transaction has failed, inside one that continues', async () => {
    const { dataSource, locks } = await startShop();
    const { locks: others } = await startLocks(redis.url);
    const first = uniqueKey('first');
    const busy = await others.acquire(first);
    await dataSource.transaction(async () => {
      let calls: Promise<unknown>[] = [];
      const inner = dataSource.transaction(async () => {
        calls = [locks.withLock(first, () => {}), locks.withLock(stock.key, KEEP, () => {})];
        await sleep(100);
        throw new Error('body');
      });
      await expect(inner).rejects.toThrow('body');
      await busy.release();
      await Promise.all(calls);
      expect(await held()).toBe(true);
    });
  });

  it('A key stays taken for a call whose transaction has failed while it waited for its turn', async () => {
    const { dataSource, locks } = await startShop();
    await locks.withLock(stock.key, async () => {
      const sibling = locks.withLock(stock.key, () => sleep(400));
      let call: Promise<unknown> | undefined;
      const failing = dataSource.transaction(async () => {
        call = locks.withLock(stock.key, KEEP, () => 'worked');
        await sleep(100);
        throw new Error('body');
      });
      await expect(failing).rejects.toThrow('body');
      expect(await call).toBe('worked');
      await sibling;
    });
    expect(await held()).toBe(true);
  });

  it('No key stays taken in an abandoned run, although it was lost and acquired again there', async () => {
    const { dataSource, locks } = await startShop();
    const second = uniqueKey('second');
    let runs = 0;
    await dataSource.transaction(async (manager) => {
      const [maxHoldMs, slowly] = ++runs === 1 ? [300, 500] : [60_000, 1];
      const short = { maxHoldMs, leaseMs: 1_000 };
      const lost = locks.withLock(stock.key, short, () => sleep(slowly));
      await sleep(20);
      const options = { ...short, ...KEEP, waitMs: 2_000, onBusy: 'skip' } as const;
      await Promise.allSettled([
        lost,
        locks.withLock(stock.key, options, () => stock.takeOne(manager)),
      ]);
      await locks.withLock(second, { insideTransaction: 'restart' }, () => {});
    });
    expect([runs, await stock.quantity(), await held()]).toEqual([2, 99, true]);
  });

  it('No key stays taken for a second transaction inside an abandoned run', async () => {
    const { dataSource, locks, sell } = await startShop('restart');
    const { locks: others } = await startLocks(redis.url);
    const second = uniqueKey('second');
    await using busy = await others.acquire(second);
    void busy;
    const sale = locks.withLock(stock.key, () =>
      dataSource.transaction(async () => {
        await dataSource.transaction(sell);
        await locks.withLock(second, { waitMs: 100 }, () => {});
      }),
    );
    await expect(sale).rejects.toMatchObject({ code: 'LOCK_NOT_ACQUIRED' });
    expect(await held()).toBe(false);
  });
});
