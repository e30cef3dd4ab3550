import { describe, expect, it } from '@jest/globals';
import knexOf, { type Knex } from 'knex';
import { CamelCasePlugin, CompiledQuery, Kysely, PostgresDialect, type Transaction } from 'kysely';
import { createPool } from 'mysql2/promise';
import {
  LockCommitUnknownError,
  LockConfigError,
  LockFencedError,
  LockInTransactionError,
  type RedisLockModuleOptions,
} from 'nestjs-locked';
import { lockAwareTransactions, pruneFenceTable } from 'nestjs-locked/transactions';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import pg from 'pg';
import pgPromise from 'pg-promise';
import postgres, { type TransactionSql } from 'postgres';
import type { EntityManager, EntitySubscriberInterface, QueryRunner } from 'typeorm';
import {
  commitsByBeginning,
  endingIn,
} from '../../libs/nestjs-locked/src/transactions/sql/transaction-endings.js';
import { afterTest } from '../support/after-test.js';
import { useMariaDb, usePostgres } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';
import { openDataSource } from './data-source.js';
import { giveAway, isHeld, startLocks } from './locks.js';
import { mysql2Transactions } from './mysql2-transactions.js';
import { byHand, withCallback } from './opened-transaction.js';
import { transactionsOf } from './recipes/node-postgres.js';
import { inTransaction } from './recipes/postgres-js.js';
import { useStock } from './stock.js';

describe('endings in a statement', () => {
  const DIALECTS = ['postgres', 'mysql', undefined] as const;

  describe.each(DIALECTS)('the end of a transaction in a text of any dialect: %s', (dialect) => {
    it.each([
      ['COMMIT', 'commit'],
      [' commit work;', 'commit'],
      ['-- done\nCOMMIT AND CHAIN', 'commit'],
      ['/* done */COMMIT', 'commit'],
      ['UPDATE t SET a = 1; COMMIT; BEGIN', 'commit'],
      ['ROLLBACK', 'rollback'],
      ['ROLLBACK AND CHAIN', 'rollback'],
      ['ROLLBACK; UPDATE t SET a = 1', 'mixed'],
      [String.raw`SELECT '\'; COMMIT; SELECT 'a'`, 'commit'],
      [String.raw`SELECT 'a\''; COMMIT`, 'commit'],
      [String.raw`UPDATE t SET path = 'C:\'; ROLLBACK; SELECT 'a'`, 'mixed'],
    ])('%s: %s', (sql, ending) => {
      expect(endingIn(sql, dialect)).toBe(ending);
    });

    it.each([
      'SELECT 1',
      'ROLLBACK TO SAVEPOINT a',
      'ROLLBACK WORK TO a',
      'ROLLBACK/* not all */TO a',
      "INSERT INTO log VALUES ('a; COMMIT; it''s')",
      'SELECT "commit" FROM t /* ; COMMIT */ -- ; COMMIT',
      'SELECT CASE WHEN a THEN 1 END FROM t',
      'INSERT INTO commit VALUES (1)',
      String.raw`INSERT INTO paths VALUES ('C:\', '; COMMIT')`,
      String.raw`INSERT INTO log VALUES ('it\'s; COMMIT')`,
      `INSERT INTO log VALUES ('${'; COMMIT \n'.repeat(100_000)}')`,
    ])('%.80s: none', (sql) => {
      expect(endingIn(sql, dialect)).toBeUndefined();
    });
  });

  describe('the end of a transaction in a text of PostgreSQL', () => {
    it.each([
      ['END', 'commit'],
      ["PREPARE TRANSACTION 'x'", 'prepare'],
      ['abort;', 'rollback'],
      [String.raw`SELECT E'\'; ', 'a'; COMMIT`, 'commit'],
      [String.raw`SELECT U&'\'; COMMIT; SELECT 'a'`, 'commit'],
      ["SELECT name' a'; COMMIT; SELECT 'a'", 'commit'],
      ['SELECT $1$2; COMMIT; SELECT $1$2', 'commit'],
      ['SELECT a$b$; COMMIT; SELECT a$b$', 'commit'],
      ['SELECT $a$ $b$ $a$; COMMIT; SELECT $c$ $a$ $c$', 'commit'],
      ['SELECT 1 --\rCOMMIT\n; COMMIT', 'commit'],
      ['/* /* */ */ COMMIT', 'commit'],
      ['SELECT CASE a WHEN 1 THEN 2 END; END', 'commit'],
      [
        'CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; END; COMMIT',
        'commit',
      ],
      ["SELECT E'a'\n'\\'', '\\'; COMMIT; --'", 'commit'],
      ["SELECT E'a' -- b'\n -- c\n'\\'', '\\'; COMMIT; --'", 'commit'],
      ['CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1 AS case; END; COMMIT', 'commit'],
      ['CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1 case; END; COMMIT', 'commit'],
      ['CREATE FUNCTION f() RETURNS void BEGIN ATOMIC END; COMMIT', 'commit'],
      ['CREATE TABLE t (begin int); END', 'commit'],
      ['CREATE VIEW v (begin, atomic) AS SELECT 1, 2; SELECT 1; COMMIT; SELECT 1', 'commit'],
      ['CREATE VIEW v AS SELECT begin, atomic FROM t; COMMIT', 'commit'],
      ['CREATE TABLE t (begin atomic); COMMIT', 'commit'],
      ['SELECT a # b; COMMIT', 'commit'],
      ['SELECT 1 --COMMIT\n;COMMIT', 'commit'],
    ])('%s: %s', (sql, ending) => {
      expect(endingIn(sql, 'postgres')).toBe(ending);
    });

    it.each([
      'DO $body$ BEGIN PERFORM 1; END; $body$',
      'DO $$ BEGIN PERFORM 1; END $$',
      'DO $é$ BEGIN PERFORM $a$ $$ $a$; END; $é$',
      'PREPARE statement AS SELECT 1',
      "COMMIT PREPARED 'x'",
      "ROLLBACK PREPARED 'x'",
      'rollback transaction to savepoint a',
      '/* /* */ ; COMMIT */ SELECT 1',
      'SELECT 1 --; COMMIT',
      String.raw`SELECT E'it\'s; COMMIT'`,
      'SELECT "a""; COMMIT"',
      String.raw`SELECT U&"\" FROM t WHERE a = '; COMMIT'`,
      `CREATE FUNCTION f() RETURNS int LANGUAGE sql BEGIN ATOMIC
       UPDATE t SET a = CASE WHEN a > 1 THEN 1 END; SELECT 1; END`,
      'CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1 AS end; SELECT 2; END',
      'CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1 end; SELECT t.end FROM t; END',
      "SELECT E'a'\n'b\\'; COMMIT; '",
      'CREATE OR REPLACE PROCEDURE p(a int) BEGIN ATOMIC INSERT INTO t VALUES (a); END;',
      'CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN 1; END $$',
      'CREATE RULE r AS ON INSERT TO t DO ALSO (DELETE FROM a; DELETE FROM b)',
    ])('%s: none', (sql) => {
      expect(endingIn(sql, 'postgres')).toBeUndefined();
    });
  });

  describe('the end of a transaction in a text of MySQL', () => {
    it.each([
      ['/*! COMMIT */', 'commit'],
      ['/*!50000COMMIT*/', 'commit'],
      ['/*M!100100 COMMIT */', 'commit'],
      ['/*! SELECT 1 */; COMMIT', 'commit'],
      ['/* /* */ COMMIT', 'commit'],
      ['SELECT 1 --1\n; COMMIT', 'commit'],
      ['SELECT 4--1; COMMIT', 'commit'],
      ['# done\nCOMMIT', 'commit'],
      [String.raw`SELECT "\""; COMMIT`, 'commit'],
      ['SELECT `a``b`; ROLLBACK', 'mixed'],
      ['SELECT $$; COMMIT; SELECT $$', 'commit'],
      ["COMMIT; SELECT '", 'commit'],
      ['BEGIN NOT ATOMIC UPDATE t SET a = 1; COMMIT; END', 'commit'],
      ['BEGIN NOT ATOMIC COMMIT; UPDATE t SET a = 1; END', 'commit'],
      ['BEGIN NOT ATOMIC ROLLBACK; UPDATE t SET a = 1; END', 'mixed'],
      ['begin not atomic if 1 then commit and chain; end if; end', 'commit'],
      ['IF 1 THEN COMMIT WORK; END IF', 'commit'],
      ['REPEAT COMMIT; UNTIL 1 END REPEAT', 'commit'],
    ])('%s: %s', (sql, ending) => {
      expect(endingIn(sql, 'mysql')).toBe(ending);
    });

    it.each([
      'SELECT 1 # ; COMMIT',
      'SELECT 1 -- ; COMMIT',
      '-- done',
      String.raw`SELECT "it\"s; COMMIT"`,
      'SELECT `a; COMMIT`',
      "PREPARE s FROM 'SELECT 1'",
      'BEGIN NOT ATOMIC UPDATE t SET a = 1; END',
      'BEGIN NOT ATOMIC ROLLBACK TO a; UPDATE t SET a = 1; END',
      'BEGIN NOT ATOMIC SELECT CASE a WHEN 1 THEN commit ELSE 2 END FROM t; END',
      'SELECT CASE a WHEN 1 THEN 2 ELSE commit END FROM t',
      'SELECT CASE a WHEN 1 THEN 2 END, 3 else_commit, commit FROM t',
      // It commits implicitly, which the gate learns from the server.
      'CREATE PROCEDURE p() BEGIN UPDATE t SET a = 1; COMMIT; END',
    ])('%s: none', (sql) => {
      expect(endingIn(sql, 'mysql')).toBeUndefined();
    });
  });

  describe('a text of MySQL that begins a transaction', () => {
    it.each([
      'START TRANSACTION READ ONLY',
      ' begin;',
      'BEGIN WORK',
      '/*! BEGIN */',
      'SELECT 1; start transaction',
      'SET autocommit=1',
      'SET @a = 1, SESSION autocommit := ON',
      'SET @@session.autocommit = TRUE',
    ])('commits: %s', (sql) => {
      expect(commitsByBeginning(sql)).toBe(true);
    });

    it.each([
      'BEGIN NOT ATOMIC BEGIN UPDATE t SET a = 1; END; END',
      'SET autocommit = 0',
      'SET @autocommit = 1',
      'SET GLOBAL autocommit = 1',
      "INSERT INTO log VALUES ('; START TRANSACTION; ')",
      'SELECT begin FROM start',
      'START SLAVE',
    ])('is not another one: %s', (sql) => {
      expect(commitsByBeginning(sql)).toBe(false);
    });
  });

  describe('the text after a CREATE in MySQL', () => {
    it.each([
      'CREATE TEMPORARY TABLE t (event int); COMMIT',
      'CREATE TEMPORARY TABLE procedure_of_day (a int); COMMIT',
    ])('may end the transaction: %s', (sql) => {
      expect(endingIn(sql, 'mysql')).toBe('commit');
    });

    it.each([
      'CREATE FUNCTION f() RETURNS int BEGIN COMMIT; RETURN 1; END',
      "CREATE DEFINER = 'table' PROCEDURE p() BEGIN COMMIT; END",
      'CREATE TEMPORARY TABLE t (a int); CREATE PROCEDURE p() BEGIN SELECT 1; COMMIT; END',
    ])('may be the body of a routine: %s', (sql) => {
      expect(endingIn(sql, 'mysql')).toBeUndefined();
    });
  });

  describe('a long text', () => {
    it.each(['mysql', 'postgres'] as const)('is read in linear time (%s)', (dialect) => {
      const rows = Array.from({ length: 40_000 }, () => '(DEFAULT, ?, ?)').join(', ');
      const before = process.cpuUsage();
      expect(
        endingIn(`INSERT INTO booking(id, start, end) VALUES ${rows}`, dialect),
      ).toBeUndefined();
      const usedMs = process.cpuUsage(before).user / 1_000;
      expect(usedMs).toBeLessThan(5_000); // about 0.1 s; 20 s if it were quadratic
    });

    it.each([
      ['postgres', `''`],
      ['postgres', `\\'`],
      ['mysql', `''`],
      ['mysql', '\\\\'],
    ] as const)('may have one long literal (%s: %s)', (dialect, part) => {
      const literal = part.repeat(1_500_000);
      for (const insert of [`INSERT INTO page VALUES ('${literal}')`, `SELECT E'${literal}'`]) {
        expect(endingIn(`${insert}; SELECT 'COMMIT'`, dialect)).toBeUndefined();
        expect(endingIn(`${insert}; COMMIT`, dialect)).toBeDefined();
      }
    });
  });
});

describe('endings that the database does not understand', () => {
  const redis = useRedis();

  const FORMS = [
    ['with a callback', withCallback],
    ['by hand', byHand()],
  ] as const;

  const ENDINGS = ['COMMIT nothing', 'START TRANSACTION nothing', 'SET autocommit = 1 nothing'];

  const swallowed = (acting: Promise<unknown>): Promise<void> =>
    acting.then(
      () => {},
      () => {},
    );

  interface Connection {
    query: (...args: unknown[]) => unknown;
  }
  type Answered = (error: unknown) => void;

  /** Executes the next statement on the connection, but drops its reply. */
  async function loseAnswer(runner: QueryRunner): Promise<void> {
    const connection = (await runner.connect()) as Connection;
    const { query } = connection;
    connection.query = (...args) => {
      connection.query = query;
      const answered = args.pop() as Answered;
      const lost = Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET', errno: -104 });
      return query.call(connection, ...args, () => answered(lost));
    };
  }

  describeWithMariaDb('a statement before the COMMIT that the database does not understand', () => {
    const mariaDb = useMariaDb();
    const stock = useStock(mariaDb, 'mysql');

    const start = async (hook: (runner: QueryRunner) => Promise<unknown>, multiple = false) => {
      const extra = multiple ? { multipleStatements: true } : {};
      const opened = await openDataSource('mysql', mariaDb.settings, 1, { extra });
      const dataSource = lockAwareDataSource(opened);
      const { locks } = await startLocks(redis.url, { fence: true });
      let calls = 0;
      const subscriber: EntitySubscriberInterface = {
        beforeTransactionCommit: async ({ queryRunner }) => {
          if (calls++ === 0) await hook(queryRunner);
        },
      };
      dataSource.subscribers.push(subscriber);
      return { dataSource, locks };
    };

    describe.each(FORMS)('of a transaction %s', (_, open) => {
      it.each(ENDINGS)('is reported as such, and nothing is in doubt: %s', async (sql) => {
        const { dataSource, locks } = await start((runner) => runner.query(sql));
        const sale = locks.withLock(stock.key, () =>
          open(dataSource, (runner) => stock.takeOne(runner)),
        );
        await expect(sale).rejects.toHaveProperty('driverError.errno', 1064);
        expect(await isHeld(redis.url, stock.key)).toBe(false);
        await dataSource.transaction((manager) => manager.query('SELECT 1')); // would commit what was left open
        expect(await stock.quantity()).toBe(100);
      });

      it.each(ENDINGS)('changes nothing if its error is swallowed: %s', async (sql) => {
        const { dataSource, locks } = await start((runner) => swallowed(runner.query(sql)));
        await locks.withLock(stock.key, () => open(dataSource, (runner) => stock.takeOne(runner)));
        expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([99, false]);
      });

      it('does not decide about an unanswered COMMIT after it', async () => {
        const { dataSource, locks } = await start(async (runner) => {
          await swallowed(runner.query('COMMIT nothing'));
          await loseAnswer(runner);
        });
        const sale = locks.withLock(stock.key, () =>
          open(dataSource, (runner) => stock.takeOne(runner)),
        );
        await expect(sale).rejects.toBeInstanceOf(LockCommitUnknownError);
        expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([99, true]);
      });

      it.each(['START TRANSACTION; nothing', 'COMMIT; nothing'])(
        'is in doubt if others in its text come before it: %s',
        async (sql) => {
          const { dataSource, locks } = await start((runner) => runner.query(sql), true);
          const sale = locks.withLock(stock.key, () =>
            open(dataSource, (runner) => stock.takeOne(runner)),
          );
          await expect(sale).rejects.toBeInstanceOf(LockCommitUnknownError);
          expect(await stock.quantity()).toBe(99);
        },
      );
    });

    it('is reported to the call if it was to be the COMMIT and its error is swallowed', async () => {
      const dataSource = await openDataSource('mysql', mariaDb.settings, 1);
      const run = lockAwareTransactions<EntityManager>();
      const { locks } = await startLocks(redis.url, { fence: true });
      const runner = dataSource.createQueryRunner();
      const sale = locks.withLock(stock.key, () =>
        run(async (wrap) => {
          await runner.startTransaction();
          await wrap(runner.manager, (manager) => stock.takeOne(manager));
          await swallowed(runner.query('COMMIT nothing'));
        }),
      );
      await expect(sale).rejects.toHaveProperty('driverError.errno', 1064);
      await runner.release();
      expect(await isHeld(redis.url, stock.key)).toBe(false);
    });
  });
});

describe('words in values', () => {
  const redis = useRedis();

  /** Runs the function under a lock. */
  async function underLock<T>(run: () => Promise<T>): Promise<T> {
    const { locks } = await startLocks(redis.url);
    return locks.withLock(uniqueKey('words'), run);
  }

  describe('a value that begins like the end of a transaction is not a statement', () => {
    const database = usePostgres();

    const prepare = async (): Promise<void> => {
      await database.query('DROP TABLE IF EXISTS message');
      await database.query('CREATE TABLE message (text text, "end" int, meta jsonb, tags text[])');
    };
    const written = () => database.query('SELECT * FROM message');

    describe('with postgres.js', () => {
      const inOne = async (work: (tx: postgres.TransactionSql) => Promise<unknown>) => {
        const sql = postgres(database.url, { max: 1, onnotice: () => {} });
        afterTest(() => sql.end({ timeout: 0 }));
        await prepare();
        return underLock(() => inTransaction(sql, (tx) => work(tx)));
      };
      type Insert = (tx: postgres.TransactionSql) => Promise<unknown>;

      it.each<[string, object, Insert]>([
        [
          'in the columns of a row',
          { text: 'End of the meeting' },
          (tx) => tx`INSERT INTO message ${tx({ text: 'End of the meeting' })}`,
        ],
        [
          'in rows',
          { text: 'Rollback it' },
          (tx) => tx`INSERT INTO message ${tx([{ text: 'Rollback it' }])}`,
        ],
        [
          'in JSON',
          { meta: { text: 'Commit to it' } },
          (tx) => tx`INSERT INTO message (meta) VALUES (${tx.json({ text: 'Commit to it' })})`,
        ],
        [
          'in an array',
          { tags: ['end'] },
          (tx) => tx`INSERT INTO message (tags) VALUES (${tx.array(['end'])})`,
        ],
        [
          'as the name of a column',
          { end: 1 },
          (tx) => tx`INSERT INTO message (${tx('end')}) VALUES (1)`,
        ],
        [
          'as a part of a statement',
          { end: 1 },
          (tx) => tx`INSERT INTO message ("end") VALUES (CASE WHEN true THEN 1 ${tx`END`})`,
        ],
        [
          'in a savepoint',
          { text: 'commit' },
          (tx) => tx.savepoint((part) => part`INSERT INTO message ${part({ text: 'commit' })}`),
        ],
      ])('%s', async (_, row, insert) => {
        await inOne(insert);
        expect(await written()).toMatchObject([row]);
      });

      it.each<[string, Insert]>([
        ['a template', (tx) => tx`COMMIT`],
        ['a plain text', (tx) => tx.unsafe('COMMIT')],
        ['parts of a template', (tx) => tx`${tx`COMMIT`}`],
        ['a cursor', (tx) => tx`COMMIT`.cursor(1, () => {})],
        ['a template in a savepoint', (tx) => tx.savepoint((part) => part`COMMIT`)],
      ])('but a COMMIT is, as %s', async (_, commit) => {
        const committed = inOne(async (tx) => {
          await tx`INSERT INTO message ("end") VALUES (1)`;
          await commit(tx);
        });
        await expect(committed).rejects.toBeInstanceOf(LockInTransactionError);
        expect(await written()).toEqual([]);
      });
    });

    it('with node-postgres, when it is escaped', async () => {
      const pool = new pg.Pool({ connectionString: database.url });
      afterTest(() => pool.end());
      await prepare();
      await underLock(() =>
        transactionsOf(pool)((client) => {
          const [column, text] = [
            client.escapeIdentifier('end'),
            client.escapeLiteral('End of it'),
          ];
          return client.query(`INSERT INTO message (text, ${column}) VALUES (${text}, 1)`);
        }),
      );
      expect(await written()).toMatchObject([{ text: 'End of it', end: 1 }]);
    });

    describe('with pg-promise', () => {
      type Task = pgPromise.ITask<object>;
      const inOne = async (work: (tx: Task) => Promise<unknown>) => {
        const db = pgPromise({ noWarnings: true })({ connectionString: database.url });
        afterTest(() => db.$pool.end());
        await prepare();
        const run = lockAwareTransactions<Task>({ dialect: 'postgres' });
        return underLock(() => run((wrap) => db.tx((tx) => wrap(tx, work))));
      };
      const insert = (tx: Task) => tx.none('INSERT INTO message ("end") VALUES (1)');

      it('as the name of a task or of a part of the transaction', async () => {
        await inOne(async (tx) => {
          await tx.task('commit order', insert);
          await tx.tx('end', insert);
        });
        expect(await written()).toHaveLength(2);
      });

      it.each<[string, (tx: Task) => Promise<unknown>]>([
        ['for none()', (tx) => tx.none('COMMIT')],
        ['for multi()', (tx) => tx.multi('SELECT 1; COMMIT')],
        ['in a task', (tx) => tx.task('part', (part) => part.any('END'))],
      ])('but a COMMIT is, %s', async (_, commit) => {
        const committed = inOne(async (tx) => {
          await insert(tx);
          await commit(tx);
        });
        await expect(committed).rejects.toBeInstanceOf(LockInTransactionError);
        expect(await written()).toEqual([]);
      });
    });
  });

  describeWithMariaDb('a value for mysql2 that begins like the end of a transaction', () => {
    const database = useMariaDb();

    it('is not a statement when it is escaped', async () => {
      const pool = createPool(database.url);
      afterTest(() => pool.end());
      await database.query('CREATE TABLE message (text text)');
      await underLock(() =>
        mysql2Transactions(pool)(async (tx) => {
          await tx.query(`INSERT INTO message VALUES (${tx.escape('End of it')})`);
          await tx.query(tx.format('INSERT INTO message VALUES (?)', ['commit']));
        }),
      );
      expect(await database.query('SELECT text FROM message ORDER BY text')).toEqual([
        { text: 'commit' },
        { text: 'End of it' },
      ]);
    });
  });
});

describe('mapped answers', () => {
  type Send = (sql: string) => Promise<unknown>;
  type Sell = (body: (send: Send) => Promise<unknown>) => Promise<unknown>;
  type Row = Record<string, unknown>;
  type MapRow = (row: Row) => unknown;

  const camel = (name: string): string =>
    name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
  const named =
    (rename: (name: string) => string): MapRow =>
    (row) =>
      Object.fromEntries(Object.entries(row).map(([name, value]) => [rename(name), value]));

  /**
   * The recipe for node-postgres, with a `query` function that returns `answer` instead of the result of the driver.
   */
  function nodePostgres(url: string, answer: (result: pg.QueryResult) => unknown): Sell {
    const pool = new pg.Pool({ connectionString: url });
    afterTest(() => pool.end());
    const run = lockAwareTransactions<pg.PoolClient>({
      dialect: 'postgres',
      query: async (tx, sql, params) => answer(await tx.query(sql, params)),
      pool,
    });
    return (body) =>
      run(async (wrap) => {
        const client = await pool.connect();
        try {
          await client.query('BEGIN');
          const result = await wrap(client, (tx) => body((sql) => tx.query(sql)));
          await client.query('COMMIT');
          return result;
        } catch (error) {
          await client.query('ROLLBACK');
          throw error;
        } finally {
          client.release();
        }
      });
  }

  const rows =
    (map: MapRow) =>
    (url: string): Sell =>
      nodePostgres(url, (result) => (result.rows as Row[]).map(map));

  const ON_POSTGRES: Record<string, (url: string) => Sell> = {
    'CamelCasePlugin of Kysely': (url) => {
      const pool = new pg.Pool({ connectionString: url });
      const kysely = new Kysely<unknown>({
        dialect: new PostgresDialect({ pool }),
        plugins: [new CamelCasePlugin()],
      });
      afterTest(() => kysely.destroy());
      const run = lockAwareTransactions<Transaction<unknown>>({ pool });
      return (body) =>
        run((wrap) =>
          kysely
            .transaction()
            .execute((tx) =>
              wrap(tx, (own) => body((sql) => own.executeQuery(CompiledQuery.raw(sql)))),
            ),
        );
    },
    'transform of postgres.js': (url) => {
      const sql = postgres(url, { transform: postgres.camel, onnotice: () => {} });
      afterTest(() => sql.end());
      const run = lockAwareTransactions<TransactionSql>({
        dialect: 'postgres',
        query: (tx, text, params) => tx.unsafe(text, params as string[]),
        survivesDisconnect: false,
      });
      return (body) =>
        run<unknown>((wrap) =>
          sql.begin((tx) => wrap(tx, (own) => body((text) => own.unsafe(text)))),
        );
    },
    'postProcessResponse of Knex': (url) => {
      const mapped = (result: { rows?: Row[] }): unknown =>
        result?.rows === undefined ? result : { ...result, rows: result.rows.map(named(camel)) };
      const knex = knexOf({ client: 'pg', connection: url, postProcessResponse: mapped });
      afterTest(() => knex.destroy());
      const run = lockAwareTransactions<Knex.Transaction>();
      return (body) =>
        run<unknown>((wrap) =>
          knex.transaction((tx) => wrap(tx, (own) => body(async (sql) => own.raw(sql)))),
        );
    },
    'receive of pg-promise': (url) => {
      const receive = ({ data }: { data: Row[] }): void => {
        for (const row of data) {
          for (const name of Object.keys(row).filter((one) => camel(one) !== one)) {
            row[camel(name)] = row[name];
            delete row[name];
          }
        }
      };
      const database = pgPromise({ noWarnings: true, receive })(url);
      afterTest(() => database.$pool.end());
      const run = lockAwareTransactions<pgPromise.ITask<object>>({ pool: database.$pool });
      return (body) =>
        run<unknown>((wrap) =>
          database.tx((tx) => wrap(tx, (own) => body((sql) => own.query(sql)))),
        );
    },
    'names in upper case': rows(named((name) => name.toUpperCase())),
    'names with a prefix': rows(named((name) => `db.${name}`)),
    'old and new names': rows((row) => ({
      ...row,
      ...(named(camel)(row) as Row),
      X: Object.values(row)[0],
    })),
    'rows as lists': rows((row) => Object.values(row)),
    'values alone': rows((row) => Object.values(row)[0]),
    'no columns that are null': rows((row) =>
      Object.fromEntries(Object.entries(row).filter(([, value]) => value !== null)),
    ),
    'lists in rows': (url) =>
      nodePostgres(url, ({ rows: all }) => ({
        rows: (all as Row[]).map((row) => Object.values(row)),
      })),
  };

  const UNREADABLE: Record<string, (url: string) => Sell> = {
    nothing: (url) => nodePostgres(url, () => undefined),
    'a number of rows': (url) => nodePostgres(url, ({ rowCount }) => ({ rowCount })),
    'rows without columns': rows(() => ({})),
    'values that are hidden': rows((row) =>
      Object.fromEntries(Object.keys(row).map((name) => [name, '***'])),
    ),
  };

  const OPTIONS: Record<string, Partial<RedisLockModuleOptions>> = {
    'with time-outs': {},
    'without time-outs': { transactionTimeouts: false },
  };

  describe('The answers of PostgreSQL, mapped by the application', () => {
    const redis = useRedis();
    const database = usePostgres();
    const stock = useStock(database);
    const raise = (token: number): Promise<unknown> =>
      database.query('UPDATE lock_fence SET token = $1 WHERE lock_key = $2', [token, stock.key]);
    const update = (): string =>
      `UPDATE stock SET quantity = quantity - 1 WHERE id = '${stock.product}'`;

    describe.each(Object.entries(OPTIONS))('%s', (_, options) => {
      it.each(Object.entries(ON_POSTGRES))('are understood: %s', async (_name, open) => {
        const sell = open(database.url);
        const { locks } = await startLocks(redis.url, { fence: true, ...options });
        for (let i = 0; i < 3; i++) {
          await locks.withLock([stock.key, `${stock.key}:2`], async (lock) => {
            await sell((send) => send(update()));
            expect(await stock.fence()).toBe(lock.fencingTokenOf(stock.key));
          });
        }
        // The fencing tokens of Redis are behind the database: the newest one is queried, and Redis continues from it.
        const ahead = Date.now() * 1_000 + 3_600_000_000;
        await raise(ahead);
        await locks.withLock(stock.key, async (lock) => {
          await sell((send) => send(update()));
          expect(lock.fencingToken).toBeGreaterThan(ahead);
        });
        const late = locks.withLock(stock.key, async ({ fencingToken }) => {
          await giveAway(redis.url, stock.key);
          await raise(fencingToken + 10_000_000);
          await sell((send) => send(update()));
        });
        await expect(late).rejects.toBeInstanceOf(LockFencedError);
        expect(await stock.quantity()).toBe(96);
      });

      it.each(Object.entries(UNREADABLE))('prove nothing if they are %s', async (_name, open) => {
        const sell = open(database.url);
        const { locks } = await startLocks(redis.url, { fence: true, ...options });
        const sale = locks.withLock(stock.key, () => sell((send) => send(update())));
        await expect(sale).rejects.toBeInstanceOf(LockConfigError);
        await expect(sale).rejects.toThrow(
          /^Cannot read what the database has answered to the claim/,
        );
        expect(await stock.quantity()).toBe(100);
      });
    });

    it.each(Object.entries(ON_POSTGRES))(
      'are understood without the fence, when the level is queried: %s',
      async (_name, open) => {
        const sell = open(database.url);
        const { locks } = await startLocks(redis.url, { insideTransaction: 'join' });
        await sell((send) => locks.withLock(stock.key, () => send(update())));
        await locks.withLock(stock.key, () => sell((send) => send(update())));
        expect(await stock.quantity()).toBe(98);
      },
    );

    it('are understood when old rows of the fence table are deleted', async () => {
      const old = `old-${stock.product}`;
      await database.query(`INSERT INTO lock_fence VALUES ($1, 5)`, [old]);
      await stock.raiseFence(Date.now() * 1_000);
      const pruned = (map: MapRow): Promise<number> =>
        pruneFenceTable(async (sql, params) => (await database.query<Row>(sql, params)).map(map), {
          dialect: 'postgres',
        });
      await expect(pruned(() => ({}))).rejects.toThrow(/^Cannot read .* the newest token/);
      expect(await pruned(named((name) => name.toUpperCase()))).toBe(1);
      await database.query(`INSERT INTO lock_fence VALUES ($1, 5)`, [old]);
      expect(await pruned(named(camel))).toBe(1);
      const left = await database.query('SELECT 1 FROM lock_fence WHERE lock_key = $1', [old]);
      expect(left).toHaveLength(0);
    });
  });

  const ON_MYSQL = [
    { rowsAsArray: true },
    { nestTables: true as unknown as string },
    { nestTables: '_' },
    { supportBigNumbers: true, bigNumberStrings: true },
  ];

  describeWithMariaDb('The answers of MariaDB, in the forms of mysql2', () => {
    const redis = useRedis();
    const database = useMariaDb();
    const stock = useStock(database, 'mysql');
    const raise = (token: number): Promise<unknown> =>
      database.query('UPDATE lock_fence SET token = ? WHERE lock_key = ?', [token, stock.key]);

    it.each(ON_MYSQL)('are understood: %j', async (form) => {
      const pool = createPool({ ...database.settings, ...form });
      afterTest(() => pool.end());
      const run = mysql2Transactions(pool);
      const { locks } = await startLocks(redis.url, { fence: true });
      const sell = (): Promise<unknown> =>
        run((tx) =>
          tx.query('UPDATE stock SET quantity = quantity - 1 WHERE id = ?', [stock.product]),
        );
      await locks.withLock([stock.key, `${stock.key}:2`], sell);
      const ahead = Date.now() * 1_000 + 3_600_000_000;
      await raise(ahead);
      await locks.withLock(stock.key, async (lock) => {
        await sell();
        expect([await stock.fence(), lock.fencingToken > ahead]).toEqual([lock.fencingToken, true]);
      });
      const late = locks.withLock(stock.key, async ({ fencingToken }) => {
        await giveAway(redis.url, stock.key);
        await raise(fencingToken + 10_000_000);
        await sell();
      });
      await expect(late).rejects.toBeInstanceOf(LockFencedError);
      expect(await stock.quantity()).toBe(98);
      await database.query(`INSERT INTO lock_fence VALUES ('old', 5)`);
      const options = { dialect: 'mysql' } as const;
      expect(await pruneFenceTable((sql, params) => pool.query(sql, params), options)).toBe(1);
      expect(await database.query(`SELECT 1 FROM lock_fence WHERE lock_key = 'old'`)).toEqual([]);
    });
  });
});
