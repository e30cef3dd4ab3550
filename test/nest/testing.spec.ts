import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { InjectLockService, LockConfigError, Locked, LockService } from 'nestjs-locked';
import {
  InMemoryLocks,
  inMemoryLockService,
  LockTestingModule,
  withTestLocks,
} from 'nestjs-locked/testing';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterTest } from '../support/after-test.js';
import { uniqueKey } from '../support/unique-key.js';

@Injectable()
class StockService {
  inside = 0;
  most = 0;

  @Locked('stock:<id>')
  async take(id: string): Promise<string> {
    this.inside += 1;
    this.most = Math.max(this.most, this.inside);
    await sleep(2);
    this.inside -= 1;
    return id;
  }
}

@Injectable()
class BillingService {
  constructor(@InjectLockService('billing') readonly locks: LockService) {}

  @Locked('bill:<id>', { service: 'billing' })
  async bill(id: string): Promise<string> {
    return Promise.resolve(id);
  }
}

async function callsAtOnce(stock: StockService, id: string): Promise<number> {
  await Promise.all([stock.take(id), stock.take(id), stock.take(id)]);
  return stock.most;
}

describe('withTestLocks()', () => {
  it('lets a plain instance be called, one call at a time per key', async () => {
    const stock = withTestLocks(new StockService());
    expect(await callsAtOnce(stock, uniqueKey())).toBe(1);
  });

  it('takes a lock service of the test, whose locks the test can hold itself', async () => {
    const locks = inMemoryLockService({ waitMs: 0 }, new InMemoryLocks());
    const stock = withTestLocks(new StockService(), locks);
    const id = uniqueKey();
    const lock = await locks.acquire(`stock:${id}`);
    await expect(stock.take(id)).rejects.toMatchObject({ code: 'LOCK_NOT_ACQUIRED' });
    await lock.release();
    expect(await stock.take(id)).toBe(id);
  });

  it('refuses an instance without locked methods', () => {
    class Plain {}
    expect(() => withTestLocks(new Plain())).toThrow(LockConfigError);
    expect(() => withTestLocks(new Plain())).toThrow('Cannot give test locks to Plain');
  });
});

describe('LockTestingModule', () => {
  it('stands in for RedisLockModule, with and without a name', async () => {
    const module = await Test.createTestingModule({
      imports: [LockTestingModule.forRoot(), LockTestingModule.forRoot({ name: 'billing' })],
      providers: [StockService, BillingService],
    }).compile();
    afterTest(() => module.close());
    await module.init();

    expect(await callsAtOnce(module.get(StockService), uniqueKey())).toBe(1);
    expect(await module.get(BillingService).bill('a')).toBe('a');
    expect(module.get(BillingService).locks).not.toBe(module.get(LockService));
  });

  it('takes locks of the test: applications that share them exclude each other, no others', async () => {
    const start = async (locks: InMemoryLocks): Promise<LockService> => {
      const imports = [LockTestingModule.forRoot({ locks })];
      const module = await Test.createTestingModule({ imports }).compile();
      afterTest(() => module.close());
      return (await module.init()).get(LockService);
    };
    const shared = new InMemoryLocks();
    const [one, other, elsewhere] = await Promise.all(
      [shared, shared, new InMemoryLocks()].map(start),
    );
    const lock = await one?.tryAcquire('k');
    expect(await other?.tryAcquire('k')).toBeNull();
    expect(await elsewhere?.tryAcquire('k')).toMatchObject({ isHeld: true });
    await lock?.release();
    expect(await other?.tryAcquire('k')).toMatchObject({ isHeld: true });
  });

  it('checks options as the real module does', async () => {
    const module = Test.createTestingModule({
      imports: [LockTestingModule.forRoot({ leaseMs: 1 })],
    });
    await expect(module.compile()).rejects.toThrow('Invalid option leaseMs: 1');
  });
});

describe('a mocked LockService', () => {
  it('does not let a locked method run', async () => {
    const module = await Test.createTestingModule({ providers: [StockService] })
      .useMocker(() => ({ withLock: () => undefined }))
      .compile();
    const stock = module.get(StockService);
    await expect(stock.take('a')).rejects.toThrow(
      'LockService is mocked; use LockTestingModule or withTestLocks',
    );
    expect(stock.most).toBe(0);
  });
});
