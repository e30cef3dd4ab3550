import { Injectable } from '@nestjs/common';
import { Transactional, TransactionHost } from '@nestjs-cls/transactional';
import type { TransactionalAdapterTypeOrm } from '@nestjs-cls/transactional-adapter-typeorm';
import { Locked } from 'nestjs-locked';
import { DataSource } from 'typeorm';
import { setTimeout as sleep } from 'node:timers/promises';

/** What an order does besides taking from the stock, while its transaction is open. */
const REST_OF_THE_ORDER_MS = 10;

/** The order of one caller, for one piece. */
export interface TrapOrder {
  readonly productId: string;
  /** How often its transaction was begun: more than once if it was restarted. */
  runs: number;
}

@Injectable()
export class TrapStockService {
  constructor(
    private readonly host: TransactionHost<TransactionalAdapterTypeOrm>,
    private readonly dataSource: DataSource,
  ) {}

  @Locked('stock:<productId>')
  async take(productId: string): Promise<void> {
    const [stock] = await this.host.tx.query<{ quantity: number }[]>(
      'SELECT quantity FROM stocks WHERE id = $1',
      [productId],
    );
    if (stock === undefined) throw new Error(`There is no stock '${productId}'`);
    // This needs a second connection: it runs outside the transaction, like a log entry that must outlive a rollback.
    await this.dataSource.query('SELECT 1');
    await this.host.tx.query('INSERT INTO purchases (stock_id, quantity) VALUES ($1, 1)', [
      productId,
    ]);
    await this.host.tx.query('UPDATE stocks SET quantity = $2 WHERE id = $1', [
      productId,
      stock.quantity - 1,
    ]);
  }
}

@Injectable()
export class TrapOrdersService {
  constructor(private readonly stock: TrapStockService) {}

  /** The trap: a transaction, and inside it the wait for a lock. It looks harmless wherever it is called. */
  @Transactional()
  async placeInWrongNesting(order: TrapOrder): Promise<void> {
    await this.#book(order);
  }

  @Locked('stock:<order.productId>')
  @Transactional()
  async placeInRightNesting(order: TrapOrder): Promise<void> {
    await this.#book(order);
  }

  async #book(order: TrapOrder): Promise<void> {
    order.runs++;
    await this.stock.take(order.productId);
    await sleep(REST_OF_THE_ORDER_MS);
  }
}
