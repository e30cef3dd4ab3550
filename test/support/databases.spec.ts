import { describe, expect, it } from '@jest/globals';
import { createPool } from 'mysql2/promise';
import pg from 'pg';
import { afterTest } from './after-test.js';
import { type TestDatabase, useMariaDb, usePostgres } from './databases.js';
import { describeWithMariaDb } from './describe-if.js';

describe('usePostgres', () => {
  const database = usePostgres();
  const other = usePostgres();

  it('gives each call its own empty database', () => expectTwo(database, other));

  it('has settings for pg, and reads committed data', async () => {
    await database.query('CREATE TABLE orders (id int)');
    const pool = new pg.Pool(database.settings);
    afterTest(() => pool.end());
    const client = await pool.connect();
    await client.query('BEGIN');
    await client.query('INSERT INTO orders VALUES (7)');

    expect(await database.query('SELECT id FROM orders')).toEqual([]);
    await client.query('COMMIT');
    client.release();
    expect(await database.query('SELECT id FROM orders WHERE id = $1', [7])).toEqual([{ id: 7 }]);
  });
});

describeWithMariaDb('useMariaDb', () => {
  const database = useMariaDb();
  const other = useMariaDb();

  it('gives each call its own empty database', () => expectTwo(database, other));

  it('has settings for mysql2, and reads committed data', async () => {
    await database.query('CREATE TABLE orders (id int)');
    const pool = createPool(database.settings);
    afterTest(() => pool.end());
    const connection = await pool.getConnection();
    await connection.beginTransaction();
    await connection.query('INSERT INTO orders VALUES (7)');

    expect(await database.query('SELECT id FROM orders')).toEqual([]);
    await connection.commit();
    connection.release();
    expect(await database.query('SELECT id FROM orders WHERE id = ?', [7])).toEqual([{ id: 7 }]);
  });
});

async function expectTwo(database: TestDatabase, other: TestDatabase): Promise<void> {
  expect(database.url).not.toBe(other.url);
  await database.query('CREATE TABLE first (id int)');
  await expect(other.query('SELECT * FROM first')).rejects.toThrow(/first/);
}
