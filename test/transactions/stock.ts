import { beforeAll, beforeEach } from '@jest/globals';
import { type FenceTableOptions, fenceTableSql } from 'nestjs-locked/transactions';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TestDatabase } from '../support/databases.js';
import { uniqueKey } from '../support/unique-key.js';

/** Runs statements in a transaction, or outside of any. */
export interface Runs {
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- every driver has its own
  query(sql: string, params: any[]): Promise<any>;
}

export interface Stock {
  /** The product of the current test, of which there are 100 pieces. */
  readonly product: string;
  /** The key of the lock that protects it. */
  readonly key: string;
  /** The committed quantity. */
  quantity(): Promise<number>;
  /** Reads, waits and writes: without a lock, concurrent calls lose an update. */
  takeOne(transaction: Runs, pauseMs?: number): Promise<void>;
  /** The committed fencing token of the key; NaN if there is none. */
  fence(): Promise<number>;
  /** Commits this fencing token for the key, as another claim would. */
  raiseFence(token: number): Promise<void>;
}

/** Creates the stock and a fence table in the database. Call it where `beforeAll` may be called. */
export function useStock(
  database: TestDatabase,
  dialect: FenceTableOptions['dialect'] = 'postgres',
): Stock {
  const sql = (text: string): string => (dialect === 'mysql' ? text.replace(/\$\d/g, '?') : text);
  let product = '';

  beforeAll(async () => {
    await database.query('CREATE TABLE stock (id varchar(64) PRIMARY KEY, quantity int NOT NULL)');
    await database.query(fenceTableSql({ dialect }));
  });

  beforeEach(async () => {
    product = uniqueKey('product');
    await database.query(sql('INSERT INTO stock VALUES ($1, 100)'), [product]);
  });

  const read = sql('SELECT quantity FROM stock WHERE id = $1');
  return {
    get product() {
      return product;
    },
    get key() {
      return `stock:${product}`;
    },
    async quantity() {
      const [row] = await database.query<{ quantity: number }>(read, [product]);
      return row?.quantity as number;
    },
    async takeOne(transaction, pauseMs = 5) {
      const rows = (await transaction.query(read, [product])) as { quantity: number }[];
      await sleep(pauseMs);
      await transaction.query(sql('UPDATE stock SET quantity = $1 WHERE id = $2'), [
        (rows[0]?.quantity as number) - 1,
        product,
      ]);
    },
    async fence() {
      const [row] = await database.query<{ token: string | number }>(
        sql('SELECT token FROM lock_fence WHERE lock_key = $1'),
        [`stock:${product}`],
      );
      return Number(row?.token);
    },
    async raiseFence(token) {
      await database.query(sql('INSERT INTO lock_fence VALUES ($1, $2)'), [
        `stock:${product}`,
        token,
      ]);
    },
  };
}
