import { Injectable } from '@nestjs/common';
import { Transactional, TransactionHost } from '@nestjs-cls/transactional';
import type { TransactionalAdapterTypeOrm } from '@nestjs-cls/transactional-adapter-typeorm';
import { Locked } from 'nestjs-locked';
import { StockService } from '../stock/stock.service.js';
import { Order, type OrderLine } from './order.entity.js';

/** An order takes several products in one transaction. There are two ways to write it, and only one is right. */
@Injectable()
export class OrdersService {
  constructor(
    private readonly host: TransactionHost<TransactionalAdapterTypeOrm>,
    private readonly stocks: StockService,
  ) {}

  /**
   * Right: first all locks, then the transaction. A call that waits has no connection, and the locks are released when
   * the transaction has ended. `StockService.take` finds that its key is locked already, and joins that lock.
   */
  @Locked('stock:<lines[].productId>')
  @Transactional()
  async place(lines: readonly OrderLine[]): Promise<Order> {
    return this.#takeAll(lines);
  }

  /**
   * Wrong: `StockService.take` asks for each lock inside the transaction that is already open. That is refused unless
   * `insideTransaction` says otherwise; 'restart' runs it as if it were written right.
   */
  @Transactional()
  async placeInWrongNesting(lines: readonly OrderLine[]): Promise<Order> {
    return this.#takeAll(lines);
  }

  async #takeAll(lines: readonly OrderLine[]): Promise<Order> {
    for (const { productId, quantity } of lines) await this.stocks.take(productId, quantity);
    return this.host.tx.save(Order, { lines });
  }
}
