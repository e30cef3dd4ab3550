/**
 * Runs in the project into which docs/idempotency.md was compiled: the same request several times at once. The key
 * prefix tells which other processes the lock excludes.
 */
import type { Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { RedisLockModule } from 'nestjs-locked';
import { DataSource } from 'typeorm';

interface Payments {
  pay(customer: string, key: string, payment: { amount: number }): Promise<{ id: number }>;
}

const { REDIS_URL = '', DATABASE_URL = '', KEY_PREFIX = 'lock:' } = process.env;
const { CALLS = '1', KEY = '', AMOUNT = '5' } = process.env;

// As a variable, because this file is there only in the project into which this one is copied.
const page = './payments.service.js';
const { PaymentsService } = (await import(page)) as { PaymentsService: Type<Payments> };

const app = await NestFactory.createApplicationContext(
  {
    module: class Root {},
    imports: [RedisLockModule.forRoot({ connection: REDIS_URL, keyPrefix: KEY_PREFIX })],
    providers: [
      PaymentsService,
      {
        provide: DataSource,
        useFactory: () => new DataSource({ type: 'postgres', url: DATABASE_URL }).initialize(),
      },
    ],
  },
  { logger: false, abortOnError: false },
);
const payments = app.get(PaymentsService);
const answers = await Promise.all(
  Array.from({ length: Number(CALLS) }, () =>
    payments.pay('acme', KEY, { amount: Number(AMOUNT) }).then(
      ({ id }) => id,
      (error: Error) => error.message,
    ),
  ),
);
await app.get(DataSource).destroy();
await app.close();
console.log(JSON.stringify(answers));
