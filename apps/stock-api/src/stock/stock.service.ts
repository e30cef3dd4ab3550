import { Injectable, NotFoundException } from '@nestjs/common';
import { Transactional, TransactionHost } from '@nestjs-cls/transactional';
import type { TransactionalAdapterTypeOrm } from '@nestjs-cls/transactional-adapter-typeorm';
import { Locked } from 'nestjs-locked';
import { Stock } from './stock.entity.js';
import { StockLedger } from './stock-ledger.js';

@Injectable()
export class StockService {
  constructor(
    private readonly host: TransactionHost<TransactionalAdapterTypeOrm>,
    private readonly ledger: StockLedger,
  ) {}

  async find(id: string): Promise<Stock> {
    const stock = await this.host.tx.findOneBy(Stock, { id });
    if (stock === null) throw new NotFoundException(`There is no stock '${id}'`);
    return stock;
  }

  /** One call at a time for each product, across all processes. The lock is outside the transaction and outlasts it. */
  @Locked('stock:<id>')
  @Transactional()
  async take(id: string, quantity: number): Promise<Stock> {
    return this.ledger.subtract(this.host.tx, id, quantity);
  }

  /** It has the same key, because a delivery must not overwrite a sale, nor a sale a delivery. */
  @Locked('stock:<id>')
  @Transactional()
  async restock(id: string, quantity: number, name?: string): Promise<Stock> {
    return this.ledger.set(this.host.tx, id, quantity, name);
  }
}
