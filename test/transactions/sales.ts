import { beforeAll } from '@jest/globals';
import type { TestDatabase } from '../support/databases.js';
import type { Runs, Stock } from './stock.js';

/** A table in which each sale of the product of this test is noted, without looking at the stock. */
export function useSales(postgres: TestDatabase, stock: Stock) {
  beforeAll(() => postgres.query('CREATE TABLE sales (product text NOT NULL)'));
  return {
    note: (tx: Runs): Promise<unknown> =>
      tx.query('INSERT INTO sales VALUES ($1)', [stock.product]),
    /** Rows that were written, whoever was told so. */
    count: async (): Promise<number> => {
      const sql = 'SELECT count(*)::int AS n FROM sales WHERE product = $1';
      const [row] = await postgres.query<{ n: number }>(sql, [stock.product]);
      return row?.n as number;
    },
  };
}
