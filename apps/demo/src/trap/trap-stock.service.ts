import { Injectable } from '@nestjs/common';
import { TransactionHost } from '@nestjs-cls/transactional';
import type { TransactionalAdapterTypeOrm } from '@nestjs-cls/transactional-adapter-typeorm';
import { Locked } from 'nestjs-locked';
import { DataSource } from 'typeorm';

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
