import { Injectable, NotFoundException } from '@nestjs/common';
import { Locked } from 'nestjs-locked';
import { DataSource } from 'typeorm';
import { StockLedger } from './stock-ledger.js';
import { Stock } from './stock.entity.js';

@Injectable()
export class StockService {
  constructor(
    private readonly dataSource: DataSource,
    private readonly ledger: StockLedger,
  ) {}

  async find(id: string): Promise<Stock> {
    const stock = await this.dataSource.manager.findOneBy(Stock, { id });
    if (stock === null) throw new NotFoundException(`There is no stock '${id}'`);
    return stock;
  }

  /** One at a time per product, in all processes. The lock outlasts the transaction. */
  @Locked('stock:<id>')
  async take(id: string, quantity: number): Promise<Stock> {
    return this.dataSource.transaction((manager) => this.ledger.subtract(manager, id, quantity));
  }

  /** The same key: a delivery must not overwrite a sale, nor a sale a delivery. */
  @Locked('stock:<id>')
  async restock(id: string, quantity: number, name?: string): Promise<Stock> {
    return this.dataSource.transaction((manager) => this.ledger.set(manager, id, quantity, name));
  }
}
