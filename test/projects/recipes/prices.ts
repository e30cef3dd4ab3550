/**
 * Runs in the project into which docs/cold-cache.md was compiled: many readers of one entry that is not in the cache,
 * in several processes at once. What is computed is counted in Redis.
 */
import type { Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Redis } from 'ioredis';
import { RedisLockModule } from 'nestjs-locked';
import { setTimeout as sleep } from 'node:timers/promises';

interface Prices {
  priceOf(sku: string): Promise<string>;
}

const { REDIS_URL = '', SKU = '', READERS = '1', PROCESSES = '1' } = process.env;

// As a variable, because this file is there only in the project into which this one is copied.
const page = './prices.service.js';
const { PricesService, Suppliers } = (await import(page)) as {
  PricesService: Type<Prices>;
  Suppliers: Type;
};

const redis = new Redis(REDIS_URL);
const suppliers = {
  async priceOf(sku: string): Promise<string> {
    const computed = await redis.incr(`computed:${sku}`);
    await sleep(20);
    return `price ${computed}`;
  },
};
const app = await NestFactory.createApplicationContext(
  {
    module: class Root {},
    imports: [RedisLockModule.forRoot({ connection: REDIS_URL })],
    providers: [
      PricesService,
      { provide: 'CACHE', useValue: redis },
      { provide: Suppliers, useValue: suppliers },
    ],
  },
  { logger: false, abortOnError: false },
);

// All processes begin when the last one has started.
await redis.incr(`started:${SKU}`);
while (Number(await redis.get(`started:${SKU}`)) < Number(PROCESSES)) await sleep(5);

const prices = app.get(PricesService);
const read = await Promise.all(Array.from({ length: Number(READERS) }, () => prices.priceOf(SKU)));
await app.close();
await redis.quit();
console.log(JSON.stringify([...new Set(read)]));
