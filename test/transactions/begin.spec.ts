import { describe, expect, it } from '@jest/globals';
import { LockLostError, type LockService } from 'nestjs-locked';
import { lockAwareTransactions } from 'nestjs-locked/transactions';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import pg from 'pg';
import { type DataSource, type EntityManager, EntitySchema, type QueryRunner } from 'typeorm';
import { whenIdle } from '../../libs/nestjs-locked/src/transactions/orm/busy-connection.js';
import { delayBeginsOf } from '../../libs/nestjs-locked/src/transactions/orm/client-source.js';
import {
  DelayedBegin,
  opening as showing,
} from '../../libs/nestjs-locked/src/transactions/orm/delayed-begin.js';
import { afterTest } from '../support/after-test.js';
import { type TestDatabase, useMariaDb, usePostgres } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { eventually } from '../support/eventually.js';
import { makeGate } from '../support/gate.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { type Stock, useStock } from './stock.js';

describe('a delayed BEGIN', () => {
  type Callback = (error: unknown, result?: unknown) => void;

  /** A query object of node-postgres, which writes its statement to the connection. */
  class FakeQuery {
    constructor(
      readonly config: { text: string },
      _: undefined,
      readonly callback: Callback,
    ) {}
    submit(connection: { parse(query: { text: string }): void }): void {
      connection.parse(this.config);
    }
    handleCommandComplete(message: string): void {
      this.callback(null, { rows: [message] });
    }
  }

  /** A client that records its messages. One message is everything it sends without waiting for a reply. */
  class FakeClient {
    static readonly Query = FakeQuery;
    readonly messages: string[] = [];
    failsAt: string | undefined;
    #message: string[] = [];
    readonly connection = {
      stream: { cork: (): void => {}, uncork: (): void => {} },
      parse: ({ text }: { text: string }): void => void this.#message.push(text),
      bind: (): void => {},
      execute: (): void => {},
    };

    query(statement: unknown, ...more: unknown[]): unknown {
      if (statement instanceof FakeQuery) {
        this.#message = [];
        statement.submit(this.connection);
        this.messages.push(this.#message.join(' | '));
        for (const text of this.#message) statement.handleCommandComplete(text);
        return statement;
      }
      const { text = statement } = statement as { text?: unknown };
      this.messages.push(text as string);
      if (text === this.failsAt) return Promise.reject(new Error(`${text as string} has failed`));
      const callback = more.find((one): one is Callback => typeof one === 'function');
      if (callback === undefined) return Promise.resolve({ rows: [text] });
      callback(null, { rows: [text] });
      return undefined;
    }
  }

  class FakePool {
    readonly totalCount = 1;
    readonly client = new FakeClient();

    connect(callback?: (error: unknown, client: unknown) => void): unknown {
      if (callback === undefined) return Promise.resolve(this.client);
      callback(null, this.client);
      return undefined;
    }
  }

  const shown = (begin: DelayedBegin) => ({
    on: (client: unknown) => begin.on(client),
    isOn: () => {},
    connecting: () => {},
  });

  /** Opens a transaction whose claim carries BEGIN unless another statement comes first. */
  const opening = async (
    work: (client: FakeClient, begin: DelayedBegin) => Promise<unknown>,
  ): Promise<{ client: FakeClient; begin: DelayedBegin; result: unknown }> => {
    const pool = new FakePool();
    expect([delayBeginsOf(pool), delayBeginsOf(pool)]).toEqual([true, true]);
    const begin = new DelayedBegin();
    const result = await showing(shown(begin), async () =>
      work((await pool.connect()) as FakeClient, begin),
    ).finally(() => begin.over());
    return { client: pool.client, begin, result };
  };

  describe('a BEGIN that waits for the claim', () => {
    it('is sent in one message with the claim and the isolation level', async () => {
      const { client, begin, result } = await opening(async (pg, begin) => {
        expect(await pg.query('START TRANSACTION')).toMatchObject({ rows: [], command: 'START' });
        await pg.query('SET TRANSACTION ISOLATION LEVEL SERIALIZABLE');
        const claimed = await begin.speaking(async () => pg.query('claim', ['key']));
        await pg.query('COMMIT');
        return claimed;
      });
      const [first, second] = client.messages;
      expect(first).toBe(
        'START TRANSACTION | SET TRANSACTION ISOLATION LEVEL SERIALIZABLE | claim',
      );
      expect(second).toBe('COMMIT');
      expect(result).toEqual({ rows: ['claim'] });
      expect(begin.client).toBe(client);
      expect(Object.keys(client)).not.toContain('query');
    });

    it('works with callbacks, and objects as statements', async () => {
      const pool = new FakePool();
      delayBeginsOf(pool);
      const begin = new DelayedBegin();
      const told: unknown[] = [];
      await showing(
        shown(begin),
        () =>
          new Promise<void>((resolve) => {
            pool.connect((_, pg) => {
              const client = pg as FakeClient;
              client.query({ text: 'BEGIN;' }, (_: unknown, result: unknown) => {
                told.push(result);
                void begin.speaking(async () =>
                  client.query(
                    { text: 'claim', values: ['key'] },
                    (_: unknown, result: unknown) => {
                      told.push(result);
                      resolve();
                    },
                  ),
                );
              });
            });
          }),
      );
      expect(pool.client.messages).toEqual(['BEGIN; | claim']);
      expect(told).toMatchObject([{ command: 'BEGIN' }, { rows: ['claim'] }]);
    });

    it.each([
      ['a statement', ['SELECT 1']],
      ['a statement with parameters', ['SELECT $1', [1]]],
      ['a COMMIT', ['COMMIT']],
    ])('is sent before %s that is not the claim', async (_, statement) => {
      const { client, begin } = await opening(async (pg) => {
        await pg.query('BEGIN');
        await pg.query(...(statement as [string]));
      });
      expect(client.messages).toEqual(['BEGIN', statement[0]]);
      expect(begin.client).toBeUndefined();
    });

    it('that fails makes its statements fail: they would take effect on their own', async () => {
      const { client } = await opening(async (pg) => {
        await pg.query('BEGIN');
        pg.failsAt = 'BEGIN';
        const first = expect(pg.query('UPDATE stock')).rejects.toThrow('BEGIN has failed');
        const told = new Promise((resolve) => void pg.query('UPDATE again', resolve));
        expect(await told).toMatchObject({ message: 'BEGIN has failed' });
        await first;
      });
      expect(client.messages).toEqual(['BEGIN']);
    });

    it('that fails does not affect the next user of the client, even if no ROLLBACK was sent', async () => {
      const { client } = await opening(async (pg) => {
        await pg.query('BEGIN');
        pg.failsAt = 'BEGIN';
        await expect(pg.query('UPDATE stock')).rejects.toThrow('BEGIN has failed');
        await expect(pg.query('UPDATE stock')).rejects.toThrow('BEGIN has failed');
      });
      expect(await client.query('SELECT 1')).toEqual({ rows: ['SELECT 1'] });
      expect(client.messages).toEqual(['BEGIN', 'SELECT 1']);
    });

    it('is sent before a query that sends itself, and before one with a callback', async () => {
      const cursor = new FakeQuery({ text: 'cursor' }, undefined, () => {});
      const first = await opening(async (pg) => {
        await pg.query('BEGIN');
        expect(pg.query(cursor)).toBe(cursor);
      });
      expect(first.client.messages).toEqual(['BEGIN', 'cursor']);
      const second = await opening(async (pg) => {
        await pg.query('BEGIN');
        await new Promise<void>((resolve) => void pg.query('SELECT 1', () => resolve()));
      });
      expect(second.client.messages).toEqual(['BEGIN', 'SELECT 1']);
    });

    it('is not sent if it is rolled back first', async () => {
      const { client } = await opening(async (pg) => {
        await pg.query('BEGIN');
        expect(await pg.query('ROLLBACK')).toMatchObject({ command: 'ROLLBACK' });
      });
      expect(client.messages).toEqual([]);
    });

    it('is dropped with its transaction: the next user of the client does not get it', async () => {
      const { client } = await opening(async (pg) => pg.query('BEGIN'));
      await client.query('SELECT 1');
      await client.query('BEGIN');
      expect(client.messages).toEqual(['SELECT 1', 'BEGIN']);
    });

    it('is only the first of its transaction, on the client that came first', async () => {
      const { client } = await opening(async (pg, begin) => {
        await pg.query('BEGIN');
        await begin.speaking(async () => pg.query('claim', ['key']));
        begin.opened();
        await pg.query('BEGIN');
      });
      expect(client.messages).toEqual(['BEGIN | claim', 'BEGIN']);
    });

    it('is not delayed on a client that is connected by the body, nor outside', async () => {
      const pool = new FakePool();
      delayBeginsOf(pool);
      const begin = new DelayedBegin();
      await showing(shown(begin), async () => {
        begin.opened();
        const client = (await pool.connect()) as FakeClient;
        await client.query('BEGIN');
      });
      await ((await pool.connect()) as FakeClient).query('BEGIN');
      expect(pool.client.messages).toEqual(['BEGIN', 'BEGIN']);
    });
  });

  it('clients other than node-postgres are not touched', () => {
    expect(delayBeginsOf({})).toBe(false);
    expect(delayBeginsOf({ client: { driverName: 'mysql2' } })).toBe(false);
    expect(delayBeginsOf({ driver: { master: { connect: () => {} } } })).toBe(false);
  });
});

describe('a BEGIN that PostgreSQL refuses', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  /** Creates transactions under the lock, on a pool of one client. */
  const start = async () => {
    const pool = new pg.Pool({ connectionString: postgres.url, max: 1 });
    afterTest(() => pool.end());
    const run = lockAwareTransactions<pg.PoolClient>({ dialect: 'postgres', pool });
    const { locks } = await startLocks(redis.url, { fence: {} });
    const takeOne = (client: pg.PoolClient): Promise<unknown> =>
      client.query('UPDATE stock SET quantity = quantity - 1 WHERE id = $1', [stock.product]);
    const told: string[] = [];
    /** Swallows the error, as hooks may do. */
    const swallowing = (sent: Promise<unknown>): Promise<unknown> =>
      sent.catch((error: Error) => told.push(error.message));
    const sell = (
      open: (client: pg.PoolClient, body: () => Promise<unknown>) => Promise<unknown>,
    ): Promise<unknown> =>
      locks.withLock(stock.key, () =>
        run(async (wrap) => {
          const client = await pool.connect();
          try {
            return await open(client, () => wrap(client, takeOne));
          } finally {
            client.release();
          }
        }),
      );
    return { pool, sell, takeOne, told, swallowing };
  };
  const SYNTAX = expect.stringContaining('syntax error');

  it('lets no statement pass after the claim that carried it, whoever swallows the error', async () => {
    const { pool, sell, takeOne, told, swallowing } = await start();
    const sale = sell(async (client, body) => {
      await client.query('BEGIN ISOLATION LEVEL NONSENSE');
      await swallowing(body());
      await swallowing(takeOne(client));
      await swallowing(client.query('COMMIT'));
      await client.query('ROLLBACK');
    });
    await sale; // the opener has swallowed every error
    expect(told).toEqual([SYNTAX, SYNTAX, SYNTAX]);
    expect([await stock.quantity(), await stock.fence()]).toEqual([100, NaN]);
    await pool.query('UPDATE stock SET quantity = 7 WHERE id = $1', [stock.product]);
    expect(await stock.quantity()).toBe(7); // the client works as before
  });

  it('lets neither the claim nor the body run after a statement before them', async () => {
    const { pool, sell, told, swallowing, takeOne } = await start();
    const sale = sell(async (client, body) => {
      await client.query('BEGIN ISOLATION LEVEL NONSENSE');
      await swallowing(client.query(`SET LOCAL application_name = 'hook'`));
      await swallowing(body());
      await swallowing(takeOne(client));
      await client.query('ROLLBACK');
    });
    await sale; // the opener has swallowed every error
    expect(told).toEqual([SYNTAX, SYNTAX, SYNTAX]);
    expect([await stock.quantity(), await stock.fence()]).toEqual([100, NaN]);
    await pool.query('UPDATE stock SET quantity = 7 WHERE id = $1', [stock.product]);
    expect(await stock.quantity()).toBe(7);
  });

  it('is dropped with its transaction, even if that was not rolled back', async () => {
    const { sell, told, swallowing } = await start();
    const sale = sell(async (client, body) => {
      await client.query('BEGIN ISOLATION LEVEL NONSENSE');
      await swallowing(body());
    });
    await sale; // the opener has swallowed every error
    expect(told).toEqual([SYNTAX]);
    await sell(async (client, body) => {
      await client.query('BEGIN');
      await body();
      await client.query('COMMIT');
    });
    expect(await stock.quantity()).toBe(99);
  });
});

describe('query runners that connect before they wait', () => {
  const redis = useRedis();

  /** A transaction that waits this long waits for the wrong one. */
  const STALLED_MS = 10_000;

  const ITEM = new EntitySchema<{ id: string; quantity: number }>({
    name: 'Item',
    tableName: 'stock',
    columns: {
      id: { type: 'varchar', length: 64, primary: true },
      quantity: { type: 'int' },
    },
  });

  function savesBeside(type: 'postgres' | 'mysql', database: TestDatabase): void {
    const stock = useStock(database, type);

    it.each([1, 3])(
      'do not stall if there are as many of them as connections: %s',
      async (size) => {
        const opened = await openDataSource(type, database.settings, size, { entities: [ITEM] });
        const dataSource = lockAwareDataSource(opened);
        const { locks } = await startLocks(redis.url, { fence: true });
        const save = (i: number): Promise<unknown> =>
          dataSource.getRepository(ITEM).save({ id: `${stock.product}/${i}`, quantity: 1 });
        const from = performance.now();
        await locks.withLock(stock.key, { leaseMs: 2 * STALLED_MS }, () =>
          Promise.all([
            ...Array.from({ length: size }, (_, i) => save(i)),
            dataSource.transaction((manager) => stock.takeOne(manager)),
          ]),
        );
        expect(performance.now() - from).toBeLessThan(STALLED_MS);
        const saved = await database.query("SELECT id FROM stock WHERE id LIKE '%/%'");
        expect([saved.length, await stock.quantity()]).toEqual([size, 99]);
        await database.query("DELETE FROM stock WHERE id LIKE '%/%'");
      },
    );
  }

  const sellByHand = async (runner: QueryRunner, stock: Stock, pauseMs: number): Promise<void> => {
    await runner.startTransaction();
    await stock.takeOne(runner, pauseMs);
    await runner.commitTransaction();
  };

  describe('saves beside a transaction, which load before they wait for their turn', () =>
    savesBeside('postgres', usePostgres()));

  describeWithMariaDb('on MariaDB, saves beside a transaction', () =>
    savesBeside('mysql', useMariaDb()),
  );

  describe('a transaction on a query runner that is connected before', () => {
    const postgres = usePostgres();
    const stock = useStock(postgres);
    /** The claim itself waits at most 100 ms; a turn is awaited until the lease ends. */
    const LIMITS = { waitMs: 0, leaseMs: 2 * STALLED_MS };

    /** Opens a pool of two connections, both in use. */
    const start = async () => {
      const dataSource = lockAwareDataSource(
        await openDataSource('postgres', postgres.settings, 2),
      );
      const { locks } = await startLocks(redis.url, { fence: true });
      const [runner, other] = [dataSource.createQueryRunner(), dataSource.createQueryRunner()];
      await Promise.all([runner.connect(), other.connect()]);
      return { dataSource, locks, runner, other };
    };
    const isWaitedFor = ({ driver }: DataSource): Promise<void> =>
      eventually(async () => {
        expect((driver as { master?: unknown }).master).toMatchObject({ waitingCount: 1 });
      });

    it('goes before those without a connection', async () => {
      const { dataSource, locks, runner, other } = await start();
      const from = performance.now();
      await locks.withLock(stock.key, LIMITS, async () => {
        await other.startTransaction();
        const unconnected = dataSource.transaction((manager) => stock.takeOne(manager));
        const connected = sellByHand(runner, stock, 5).finally(() => runner.release());
        await other.commitTransaction();
        await connected; // `other` keeps its connection up to here
        await other.release();
        await unconnected;
      });
      expect(performance.now() - from).toBeLessThan(STALLED_MS);
      expect(await stock.quantity()).toBe(98);
    });

    it('waits for one that is open', async () => {
      const { dataSource, locks, runner, other } = await start();
      await other.release();
      const begun = makeGate();
      await locks.withLock(stock.key, LIMITS, async () => {
        const open = dataSource.transaction(async (manager) => {
          begun.open();
          await stock.takeOne(manager, 1_000);
        });
        await begun.opened;
        await sellByHand(runner, stock, 5);
        await open;
      });
      await runner.release();
      expect(await stock.quantity()).toBe(98);
    });

    it.each(['with a callback', 'by hand'])(
      'goes before one that gets its connection later, %s',
      async (how) => {
        const { dataSource, locks, runner, other } = await start();
        const late = dataSource.createQueryRunner();
        await locks.withLock(stock.key, LIMITS, async () => {
          const unconnected =
            how === 'by hand'
              ? sellByHand(late, stock, 5)
              : dataSource.transaction((manager) => stock.takeOne(manager));
          await isWaitedFor(dataSource); // `unconnected` has the turn
          await runner.startTransaction();
          await runner.query('SELECT 1'); // `runner` has claimed the key
          await other.release();
          await stock.takeOne(runner, 1_000);
          await runner.commitTransaction();
          await unconnected;
        });
        await Promise.all([runner.release(), late.release()]);
        expect(await stock.quantity()).toBe(98);
      },
    );
  });
});

describe('a transaction that opens late', () => {
  type Work = (manager: EntityManager) => Promise<unknown>;
  type Transaction = (dataSource: DataSource, work: Work) => Promise<unknown>;

  const withCallback: Transaction = (dataSource, work) => dataSource.transaction(work);

  const byHand: Transaction = async (dataSource, work) => {
    const runner = dataSource.createQueryRunner();
    try {
      await runner.startTransaction();
      await work(runner.manager);
      await runner.commitTransaction();
    } catch (error) {
      if (runner.isTransactionActive) await runner.rollbackTransaction();
      throw error;
    } finally {
      await runner.release();
    }
  };

  const WAYS: readonly (readonly [string, Transaction])[] = [
    ['with a callback', withCallback],
    ['by hand', byHand],
  ];

  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  interface Started {
    readonly dataSource: DataSource;
    readonly locks: LockService;
    /** Frees the only connection, which is in use until then. */
    readonly freeConnection: () => Promise<void>;
  }

  async function start(fence: boolean): Promise<Started> {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));
    const { locks } = await startLocks(redis.url, { fence });
    const user = dataSource.createQueryRunner();
    await user.connect();
    return { dataSource, locks, freeConnection: () => user.release() };
  }

  describe.each([true, false])(
    'a transaction that is still being opened when its call ends (fence: %s)',
    (fence) => {
      it.each(WAYS)('does not begin without the lock, opened %s', async (_, transaction) => {
        const { dataSource, locks, freeConnection } = await start(fence);
        let hasBegun = false;
        let sale: Promise<unknown> | undefined;
        const failing = locks.withLock(stock.key, () => {
          sale = transaction(dataSource, async (manager) => {
            hasBegun = true;
            await stock.takeOne(manager);
          });
          sale.catch(() => {});
          throw new Error('another branch has failed');
        });
        await expect(failing).rejects.toThrow('another branch has failed');
        expect(await isHeld(redis.url, stock.key)).toBe(false);
        await freeConnection();
        await expect(sale).rejects.toThrow(LockLostError);
        expect(hasBegun).toBe(false);
        expect(await stock.quantity()).toBe(100);

        await locks.withLock(stock.key, () =>
          transaction(dataSource, (manager) => stock.takeOne(manager)),
        );
        expect(await stock.quantity()).toBe(99);
      });

      it('begins in an outer call of the one that has requested it only if that call has the key', async () => {
        const { dataSource, locks, freeConnection } = await start(fence);
        const saleOf = (key: string): Promise<unknown> => {
          let sale: Promise<unknown> | undefined;
          return locks.withLock(key, async () => {
            await locks.withLock(stock.key, () => {
              sale = dataSource.transaction((manager) => stock.takeOne(manager));
              sale.catch(() => {});
            });
            await freeConnection();
            await sale;
          });
        };
        await expect(saleOf(`${stock.key}:around`)).rejects.toThrow(LockLostError);
        expect(await stock.quantity()).toBe(100);
        await saleOf(stock.key);
        expect(await stock.quantity()).toBe(99);
      });
    },
  );

  it('waits for its turn in vain if the call has ended meanwhile', async () => {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));
    const { locks } = await startLocks(redis.url, { fence: true });
    const user = dataSource.createQueryRunner();
    let isNext: Promise<unknown> | undefined;
    let second: Promise<unknown> | undefined;
    const failing = locks.withLock(stock.key, () =>
      Promise.all([
        dataSource.transaction(async () => {
          isNext = user.connect(); // queued before the second transaction, which waits for its turn
          throw new Error('the first has failed');
        }),
        (second = dataSource.transaction((manager) => stock.takeOne(manager))),
      ]),
    );
    await expect(failing).rejects.toThrow('the first has failed');
    await isNext;
    await user.release();
    await expect(second).rejects.toThrow(LockLostError);
    expect(await stock.quantity()).toBe(100);
  });

  it.each(WAYS)(
    'is guarded by the outer call of the one that has left it behind, %s',
    async (_, transaction) => {
      const dataSource = lockAwareDataSource(
        await openDataSource('postgres', postgres.settings, 1),
      );
      const { locks } = await startLocks(redis.url, { fence: true });
      const innerHasEnded = makeGate();
      let hasWritten = false;
      const sale = locks.withLock(stock.key, async () => {
        let left: Promise<unknown> | undefined;
        await locks.withLock(stock.key, () => {
          left = innerHasEnded.opened.then(() =>
            transaction(dataSource, async (manager) => {
              await stock.takeOne(manager);
              hasWritten = true;
              await locks.forceRelease(stock.key);
            }),
          );
        });
        innerHasEnded.open();
        await left;
      });
      await expect(sale).rejects.toThrow(LockLostError);
      expect([hasWritten, await stock.quantity()]).toEqual([true, 100]);
    },
  );
});

describe('a busy connection', () => {
  it('a caller behind a refused one still waits, and is not refused', async () => {
    const connection = { readyForQuery: false };
    const answers: (() => void)[] = [];
    const send = (args: unknown[]): unknown => answers.push(args[1] as () => void);
    const refused = whenIdle(connection, send, () => {
      throw new Error('lost');
    });
    let looks = 0;
    const waits = whenIdle(connection, send, () => looks++);
    await expect(refused).rejects.toThrow('lost');
    await new Promise(setImmediate);
    expect(looks).toBe(1);
    connection.readyForQuery = true;
    answers[0]?.();
    await waits;
    expect(looks).toBe(2);
  });

  it('a waiting caller also waits for statements that others have sent meanwhile', async () => {
    const connection = { readyForQuery: false };
    const answers: (() => void)[] = [];
    const send = (args: unknown[]): unknown => answers.push(args[1] as () => void);
    let isIdle = false;
    const waits = whenIdle(connection, send, () => {}).then(() => (isIdle = true));
    await new Promise(setImmediate);
    answers[0]?.();
    await new Promise(setImmediate);
    expect([answers.length, isIdle]).toEqual([2, false]);
    connection.readyForQuery = true;
    answers[1]?.();
    await waits;
  });

  it('a caller that comes while another one waits sends nothing before that one has been answered', async () => {
    const connection = { readyForQuery: false };
    const answers: (() => void)[] = [];
    const send = (args: unknown[]): unknown => answers.push(args[1] as () => void);
    const waits = [1, 2].map(() => whenIdle(connection, send, () => {}));
    await new Promise(setImmediate);
    expect(answers).toHaveLength(1);
    connection.readyForQuery = true;
    answers[0]?.();
    await Promise.all(waits);
    expect(answers).toHaveLength(1);
  });
});
