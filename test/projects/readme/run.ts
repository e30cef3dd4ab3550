/** Runs the compiled examples whose files are given, then plays the first screen with two applications. */
import type { Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { DataSource } from 'typeorm';
import { app, dataSource, openTransactions, reports, stock } from './fixtures.js';

interface StockService {
  take(id: string, quantity: number): Promise<void>;
}

const [folder = '.', ...files] = process.argv.slice(2);
for (const file of files) await import(`${folder}/${file}`);

const { AppModule } = (await import(`${folder}/app.module.js`)) as { AppModule: Type };
const { StockService } = (await import(`${folder}/stock.service.js`)) as {
  StockService: Type<StockService>;
};
const database = {
  module: class Database {},
  global: true,
  providers: [{ provide: DataSource, useValue: dataSource }],
  exports: [DataSource],
};
const apps = await Promise.all(
  [1, 2].map(() =>
    NestFactory.createApplicationContext(
      { module: class Root {}, imports: [database, AppModule] },
      { logger: false },
    ),
  ),
);
const sales = Array.from({ length: 15 }, async (_, buyer) =>
  apps[buyer % 2]?.get(StockService).take(stock.id, 1),
);
const outcomes = await Promise.allSettled(sales);
for (const one of [app, ...apps]) await one.close();

console.log(
  JSON.stringify({
    files: files.length,
    sold: outcomes.filter(({ status }) => status === 'fulfilled').length,
    left: stock.quantity,
    mostOpenTransactions: openTransactions.most,
    reports: reports.length,
  }),
);
