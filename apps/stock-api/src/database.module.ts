import { Module, type OnModuleInit } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { createFenceTable } from 'nestjs-locked/transactions';
import { DataSource } from 'typeorm';
import { Order } from './orders/order.entity.js';
import { Settings } from './settings.js';
import { Purchase } from './stock/purchase.entity.js';
import { Stock } from './stock/stock.entity.js';

@Module({
  imports: [
    TypeOrmModule.forRootAsync({
      inject: [Settings],
      useFactory: (settings: Settings) => ({
        type: 'postgres',
        url: settings.databaseUrl,
        poolSize: settings.databasePoolSize,
        entities: [Stock, Purchase, Order],
      }),
    }),
  ],
})
export class DatabaseModule implements OnModuleInit {
  constructor(private readonly dataSource: DataSource) {}

  /**
   * Creates what is missing and alters nothing. That is good enough for a sample, but a real application should use
   * migrations. Several processes may start at once; the advisory lock makes them take turns.
   */
  async onModuleInit(): Promise<void> {
    await this.dataSource.transaction(async (manager) => {
      await manager.query(`SELECT pg_advisory_xact_lock(hashtext('stock-api: create tables'))`);
      await manager.query(`
        CREATE TABLE IF NOT EXISTS stocks (
          id text PRIMARY KEY,
          name text NOT NULL,
          quantity integer NOT NULL
        )`);
      await manager.query(`
        CREATE TABLE IF NOT EXISTS purchases (
          id integer PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
          stock_id text NOT NULL,
          quantity integer NOT NULL,
          purchased_at timestamptz NOT NULL DEFAULT now()
        )`);
      await manager.query(`
        CREATE TABLE IF NOT EXISTS orders (
          id integer PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
          lines jsonb NOT NULL,
          placed_at timestamptz NOT NULL DEFAULT now()
        )`);
      await createFenceTable((sql) => manager.query(sql), { dialect: 'postgres' });
    });
  }
}
