import type { INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { LockNotAcquiredError } from 'nestjs-locked';
import { overrideLocks, TestLocks } from 'nestjs-locked/testing';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { AppModule } from '../src/app.module.js';
import { StockService } from '../src/stock.service.js';

process.env['REDIS_URL'] = 'redis://nowhere'; // the application reads it, and nothing connects to it

describe('AppModule', () => {
  let app: INestApplication;
  let locks: TestLocks;

  beforeAll(async () => {
    const builder = Test.createTestingModule({ imports: [AppModule] });
    locks = overrideLocks(builder);
    app = (await builder.compile()).createNestApplication();
    await app.listen(0, '127.0.0.1');
  });

  afterEach(() => locks.reset());
  afterAll(() => app.close());

  async function take(): Promise<Response> {
    return fetch(`${await app.getUrl()}/stock/42/take`, { method: 'POST' });
  }

  it('sells under a lock', async () => {
    expect(await (await take()).json()).toEqual({ left: 9 });
    expect(locks.calls).toEqual([
      { by: 'StockService.take', keys: ['stock:42'], outcome: 'released' },
    ]);
  });

  it('answers 423 if somebody else sells for too long', async () => {
    locks.hold('stock:42');
    const response = take();
    await locks.untilWaiting('stock:42');
    await locks.advance(5_000); // the waitMs of the application
    expect((await response).status).toBe(423);
  });

  it('answers 503 while Redis is down, and sells again when it is up', async () => {
    locks.storeDown();
    const response = take();
    await locks.untilWaiting('stock:42');
    await locks.advance(5_000);
    expect((await response).status).toBe(503);

    locks.storeUp();
    expect((await take()).status).toBe(201);
  });
});

describe('two replicas of AppModule', () => {
  it('exclude each other', async () => {
    const locks = new TestLocks();
    const replicas = await Promise.all(
      [1, 2].map(async () => {
        const builder = Test.createTestingModule({ imports: [AppModule] });
        overrideLocks(builder, { locks });
        return (await builder.compile()).init();
      }),
    );

    const reports = await Promise.all(
      replicas.map((replica) => replica.get(StockService).report()),
    );

    expect(reports.sort()).toEqual(['10 left', undefined]);
    await Promise.all(replicas.map((replica) => replica.close()));
  });
});

describe('AppModule without its configuration', () => {
  it('runs with the options of the test', async () => {
    delete process.env['REDIS_URL'];
    const builder = Test.createTestingModule({ imports: [AppModule] });
    const locks = overrideLocks(builder, { options: { waitMs: 0 } });
    const module = await (await builder.compile()).init();

    locks.hold('stock:42');
    await expect(module.get(StockService).take('42', 1)).rejects.toThrow(LockNotAcquiredError);
    await module.close();
  });
});
