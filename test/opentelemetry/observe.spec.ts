/** Locks beside the agent of Nest, which wraps the methods of all providers. */
import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { createObserveModule } from '@nestjs/observe';
import { Locked, LockService, RedisLockModule } from 'nestjs-locked';
import { afterTest } from '../support/after-test.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const redis = useRedis();

@Injectable()
class StockService {
  constructor(private readonly locks: LockService) {}

  @Locked('stock:<id>')
  async take(id: string): Promise<boolean> {
    return this.locks.current(`stock:${id}`)?.isHeld ?? false;
  }
}

describe('an application with @nestjs/observe', () => {
  it('locks as one without it', async () => {
    const { ObserveModule, ObserveInstrument } = createObserveModule();
    const appKey = 'nothing listens there';
    const endpoint = 'http://127.0.0.1:9';
    const observed = ObserveModule.forRoot({ appKey, appSecret: '-', serviceId: '-', endpoint });
    const imports = [observed, RedisLockModule.forRoot({ connection: redis.url })];
    const root = { module: class Root {}, imports, providers: [StockService] };
    const app = await NestFactory.createApplicationContext(root, {
      ...(ObserveInstrument && { instrument: ObserveInstrument }),
      logger: false,
      abortOnError: false,
    });
    afterTest(() => app.close());
    const [locks, stocks] = [app.get(LockService), app.get(StockService)];
    expect(await stocks.take(uniqueKey())).toBe(true);
    const key = uniqueKey();
    await locks.withLock(key, async (lock) => {
      expect(lock.isHeld).toBe(true);
      expect(await locks.tryAcquire(key, { reentrant: false })).toBeNull();
      expect((await locks.inspect(key))?.holder?.pid).toBe(process.pid);
    });
  });
});
