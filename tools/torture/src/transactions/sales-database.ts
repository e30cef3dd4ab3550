import { fenceTableSql } from 'nestjs-locked/transactions';
import pg from 'pg';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Books } from './book-checker.js';
import { PRODUCTS } from './sale-plan.js';
import type { Run, SaleRow } from './sales-history.js';

const PIECES = 1_000_000;

/** The tables of one phase, seen from outside every transaction. */
export class SalesDatabase {
  readonly #pool: pg.Pool;

  constructor(url: string) {
    this.#pool = new pg.Pool({ connectionString: url, max: 2 });
    this.#pool.on('error', () => {}); // its connections are cut like all the others
  }

  async prepare(): Promise<void> {
    await this.#pool.query(
      `DROP TABLE IF EXISTS stock, sales, audit, lock_fence;
      CREATE TABLE stock (product text PRIMARY KEY, quantity int NOT NULL);
      CREATE TABLE sales (call text NOT NULL, run int NOT NULL, product text NOT NULL, late boolean NOT NULL);
      CREATE TABLE audit (call text NOT NULL, run int NOT NULL);
      ${fenceTableSql({ dialect: 'postgres' })}`,
    );
    for (const product of PRODUCTS) {
      await this.#pool.query('INSERT INTO stock VALUES ($1, $2)', [product, PIECES]);
    }
  }

  async books(): Promise<Books> {
    const stock = await this.#pool.query<{ product: string; quantity: number }>(
      'SELECT product, quantity FROM stock',
    );
    const rows = await this.#pool.query<SaleRow>('SELECT call, run, product, late FROM sales');
    const audits = await this.#pool.query<Run>('SELECT call, run FROM audit');
    return {
      audits: audits.rows,
      before: Object.fromEntries(PRODUCTS.map((product) => [product, PIECES])),
      after: Object.fromEntries(stock.rows.map(({ product, quantity }) => [product, quantity])),
      rows: rows.rows,
    };
  }

  /** Cuts the connection of one process that is in a transaction. */
  async endOneBackend(): Promise<void> {
    await this.#pool.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
      LIMIT 1`,
    );
  }

  /**
   * How many transactions are left open. When the workers are gone, none may be.
   *
   * @param graceMs how long the database may need to notice that a client has gone, or to end its last statement
   */
  async openTransactions(graceMs: number): Promise<number> {
    const until = performance.now() + graceMs;
    for (;;) {
      const open = await this.#openNow();
      if (open === 0 || performance.now() > until) return open;
      await sleep(100);
    }
  }

  async #openNow(): Promise<number> {
    const { rows } = await this.#pool.query<{ n: number }>(
      `SELECT count(*)::int AS n FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL`,
    );
    return rows[0]?.n as number;
  }

  async close(): Promise<void> {
    await this.#pool.end();
  }
}
