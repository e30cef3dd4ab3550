/** What the examples of the documents take for granted: each name here is one that they use without a declaration. */
import { NestFactory } from '@nestjs/core';
import { LockService, RedisLockModule } from 'nestjs-locked';
import type { DataSource } from 'typeorm';

/** An entity. */
export class Stock {
  id!: string;
  quantity!: number;
}

export class Order {
  sku!: string;
}

export class Cart {
  items!: Order[];
}

export const stock: Stock = { id: '42', quantity: 10 };
/** How many transactions were open at once, at most. */
export const openTransactions = { now: 0, most: 0 };

const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 2));

const manager = {
  async findOneByOrFail(): Promise<Stock> {
    const found = { ...stock };
    await pause();
    return found;
  },
  async update(_: unknown, __: unknown, changes: Partial<Stock>): Promise<void> {
    await pause();
    Object.assign(stock, changes);
  },
};

/** One row, and transactions that take a moment to commit. */
export const dataSource = {
  async transaction(work: (db: typeof manager) => Promise<unknown>): Promise<unknown> {
    openTransactions.most = Math.max(openTransactions.most, ++openTransactions.now);
    try {
      return await work(manager);
    } finally {
      await pause();
      openTransactions.now -= 1;
    }
  },
} as unknown as DataSource;

export const app = await NestFactory.createApplicationContext(
  {
    module: class Root {},
    imports: [RedisLockModule.forRoot({ connection: process.env['REDIS_URL'] ?? '' })],
  },
  { logger: false, abortOnError: false },
);
export const locks = app.get(LockService);

export const id = '42';
/** An address that answers without a network. */
export const supplier = 'data:text/plain,thanks';

export async function loadStock(_: string): Promise<Stock> {
  return Promise.resolve(stock);
}

export const reports: string[] = [];

export async function sendReport(): Promise<void> {
  reports.push('sent');
  return Promise.resolve();
}
