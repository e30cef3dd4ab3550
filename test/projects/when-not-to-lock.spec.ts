/** The statements of docs/when-not-to-lock.md and the example of docs/losing-a-lock.md, run on PostgreSQL. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { TestLocks } from 'nestjs-locked/testing';
import pg from 'pg';
import { readDocument } from '../api/markdown.js';
import { TemporaryProject } from '../api/temporary-project.js';
import { usePostgres } from '../support/databases.js';
import { eventually } from '../support/eventually.js';

const database = usePostgres();

describe('docs/when-not-to-lock.md', () => {
  const [product, take, payment, save, forUpdate, queue, advisory] = readDocument(
    'docs/when-not-to-lock.md',
  ).blocks.flatMap(({ language, code }) => (language === 'sql' ? [statementsOf(code)] : []));
  let pool: pg.Pool;

  beforeAll(() => {
    pool = new pg.Pool({ connectionString: database.url });
  });

  afterAll(() => pool.end());

  /** How many rows each of two callers gets or changes who send the last of the statements at once. */
  async function rowsOfBoth(statements: readonly string[] = []): Promise<unknown[]> {
    const sql = statements.at(-1) ?? '';
    const results = await Promise.all([pool.query(sql), pool.query(sql)]);
    return results.map(({ rowCount }) => rowCount).sort();
  }

  it('has statements that refuse the second caller', async () => {
    await runAll(pool, product);
    await pool.query("INSERT INTO product VALUES ('42', 5)");
    expect(await rowsOfBoth(take)).toEqual([0, 1]);
    await runAll(pool, payment?.slice(0, -1));
    expect(await rowsOfBoth(payment)).toEqual([0, 1]);
    expect(await rowsOfBoth(save)).toEqual([0, 1]);
  });

  it('has transactions in which the second caller waits, or gets another row', async () => {
    const [one, other] = await Promise.all([pool.connect(), pool.connect()]);
    await runAll(one, forUpdate?.slice(0, 2));
    await other.query("SET lock_timeout = '100ms'");
    await expect(runAll(other, forUpdate)).rejects.toThrow('lock timeout');
    await other.query('ROLLBACK');
    await runAll(one, forUpdate?.slice(2));

    await one.query('CREATE TABLE job (id int, done boolean DEFAULT false)');
    await one.query('INSERT INTO job VALUES (1), (2)');
    const begin = queue?.slice(0, 2);
    expect(await runAll(one, begin)).toEqual([{ id: 1 }]);
    expect(await runAll(other, begin)).toEqual([{ id: 2 }]);
    await runAll(one, queue?.slice(2));
    expect(await runAll(one, begin)).toEqual([]);
    for (const client of [one, other]) client.release(true);
  });

  it('has an advisory lock that waits until the transaction ends', async () => {
    const [one, other] = await Promise.all([pool.connect(), pool.connect()]);
    await runAll(one, advisory?.slice(0, 2));
    await other.query("SET lock_timeout = '100ms'");
    await expect(runAll(other, advisory)).rejects.toThrow('lock timeout');
    await other.query('ROLLBACK');
    await runAll(one, advisory?.slice(2));
    await runAll(other, advisory);
    for (const client of [one, other]) client.release(true);
  });

  it('says what session locks do where a connection is lent for a transaction, as by a pooler', async () => {
    const [one, other] = await Promise.all([pool.connect(), pool.connect()]);
    const lock = 'SELECT pg_try_advisory_lock(42) AS ok';
    const unlock = 'SELECT pg_advisory_unlock(42) AS ok';
    // Two clients that get the same connection, one after the other.
    expect(await runAll(one, [lock])).toEqual([{ ok: true }]);
    expect(await runAll(one, [lock])).toEqual([{ ok: true }]);
    // A client that gets another connection than before.
    expect(await runAll(other, [unlock])).toEqual([{ ok: false }]);
    expect(await runAll(other, [lock])).toEqual([{ ok: false }]);
    one.release(true);
    await eventually(async () => expect(await runAll(other, [lock])).toEqual([{ ok: true }]));
    other.release(true);
  });

  it('says that whoever waits for an advisory lock keeps a connection, and for a lock of ours none', async () => {
    const small = new pg.Pool({
      connectionString: database.url,
      max: 2,
      connectionTimeoutMillis: 300,
    });
    const holder = await small.connect();
    await runAll(holder, advisory?.slice(0, 2));
    const waiter = await small.connect();
    const waiting = runAll(waiter, advisory);
    await expect(small.query('SELECT 1')).rejects.toThrow('timeout');
    await runAll(holder, advisory?.slice(2));
    await waiting;
    waiter.release();

    const locks = new TestLocks();
    const held = locks.hold('report:nightly');
    const call = locks.service().withLock('report:nightly', () => small.query('SELECT 1'));
    await locks.untilWaiting('report:nightly');
    expect((await small.query('SELECT 1')).rowCount).toBe(1);
    held.release();
    expect((await call).rowCount).toBe(1);
    holder.release();
    await small.end();
  });
});

describe('docs/losing-a-lock.md', () => {
  const project = new TemporaryProject();

  beforeAll(() => {
    project.link('nestjs-locked', '@nestjs/common', 'typeorm', 'pg', 'reflect-metadata', 'rxjs');
    project.link('@types/node', 'ioredis');
    project.write('package.json', { type: 'module' });
    project.write('tsconfig.json', {
      compilerOptions: {
        ...{ module: 'nodenext', target: 'ES2022', lib: ['ES2023', 'ESNext.Disposable'] },
        ...{ types: ['node'], skipLibCheck: true, rootDir: '.', outDir: 'out' },
      },
    });
    const [example] = readDocument('docs/losing-a-lock.md').blocks.filter(
      ({ file }) => file === 'fenced-update.ts',
    );
    project.write(
      'run.ts',
      `import { ConflictException } from '@nestjs/common';
       import { lockKey, LockService } from 'nestjs-locked';
       import { TestLocks } from 'nestjs-locked/testing';
       import { DataSource } from 'typeorm';
       ${example?.code}
       const url = process.env['DATABASE_URL'];
       const db = await new DataSource({ type: 'postgres', url }).initialize();
       await db.query('CREATE TABLE product (id text, price int, fence bigint DEFAULT 0)');
       await db.query("INSERT INTO product VALUES ('42', 1)");
       const locks = new TestLocks().service();
       await setPrice(db, locks, '42', 5);
       await db.query('UPDATE product SET fence = 9007199254740991');
       const late = setPrice(db, locks, '42', 6);
       console.log(await late.catch((error: Error) => error.message));
       await db.destroy();`,
    );
  });

  afterAll(() => project.remove());

  it('has an update that refuses a smaller fencing number', async () => {
    const { code, stdout } = await project.tsc('-p', '.');
    expect([code, stdout]).toEqual([0, '']);
    await database.query('DROP TABLE IF EXISTS product');

    const run = await project.node(['out/run.js'], { DATABASE_URL: database.url });

    expect([run.code, run.stderr]).toEqual([0, '']);
    expect(run.stdout).toBe('Somebody else has changed it since\n');
  });
});

/** The statements of a text that has no semicolon elsewhere. */
function statementsOf(text: string): string[] {
  return text.split(/;\s*/).filter((statement) => statement !== '');
}

/** @returns the rows of the last one */
async function runAll(
  database: pg.Pool | pg.PoolClient,
  statements: readonly string[] = [],
): Promise<unknown[]> {
  let rows: unknown[] = [];
  for (const statement of statements) ({ rows } = await database.query(statement));
  return rows;
}
