import { beforeAll } from '@jest/globals';
import type { TestDatabase } from '../support/databases.js';
import type { Runs, Stock } from '../transactions/stock.js';

/** Creates a table that records each sale of this test's product, independently of the stock. */
export function useSales(postgres: TestDatabase, stock: Stock) {
  beforeAll(() => postgres.query('CREATE TABLE sales (product text NOT NULL)'));
  return {
    note: (tx: Runs): Promise<unknown> =>
      tx.query('INSERT INTO sales VALUES ($1)', [stock.product]),
    /** The number of committed rows, whatever the callers were told. */
    count: async (): Promise<number> => {
      const sql = 'SELECT count(*)::int AS n FROM sales WHERE product = $1';
      const [row] = await postgres.query<{ n: number }>(sql, [stock.product]);
      return row?.n as number;
    },
  };
}
