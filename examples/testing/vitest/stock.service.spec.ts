import { Test } from '@nestjs/testing';
import { LockLostError, LockNotAcquiredError, LockStoreError } from 'nestjs-locked';
import { LockTestingModule, TestLocks, withTestLocks } from 'nestjs-locked/testing';
import { lastValueFrom } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { StockService } from '../src/stock.service.js';
import { Warehouse } from '../src/warehouse.js';

function makeStock(locks: TestLocks, warehouse = new Warehouse()): StockService {
  return withTestLocks(new StockService(warehouse, locks.service()), locks);
}

describe('StockService', () => {
  it('sells one piece at a time', async () => {
    const locks = new TestLocks();
    const stock = makeStock(locks);

    const left = await Promise.all([stock.take('42', 1), stock.take('42', 1)]);

    expect(left).toEqual([9, 8]);
    expect(locks.calls).toEqual([
      { by: 'StockService.take', keys: ['stock:42'], outcome: 'released' },
      { by: 'StockService.take', keys: ['stock:42'], outcome: 'released' },
    ]);
  });

  it('sells nothing that somebody else is selling', async () => {
    const locks = new TestLocks();
    const stock = makeStock(locks);
    locks.hold('stock:42');

    const refused = expect(stock.take('42', 1)).rejects.toThrow(LockNotAcquiredError);
    await locks.advance(10_000);
    await refused;
  });

  it('waits until somebody else has sold', async () => {
    const locks = new TestLocks();
    const stock = makeStock(locks);
    const other = locks.hold('stock:42');

    const sale = stock.take('42', 1);
    await locks.untilWaiting('stock:42');
    other.release();

    expect(await sale).toBe(9);
  });

  it('watches under the lock', async () => {
    const locks = new TestLocks();

    expect(await lastValueFrom(makeStock(locks).watch('42'))).toBe(10);

    expect(locks.calls).toMatchObject([{ by: 'StockService.watch', outcome: 'released' }]);
  });

  it('skips a report that another replica makes', async () => {
    const locks = new TestLocks();
    const stock = makeStock(locks);

    expect(await stock.report()).toBe('10 left');
    expect(await stock.report()).toBeUndefined();
    await locks.advance(30_000);
    expect(await stock.report()).toBe('10 left');

    expect(locks.calls.map(({ outcome }) => outcome)).toEqual(['released', 'busy', 'released']);
  });

  it('writes nothing if the lock is lost', async () => {
    const locks = new TestLocks();
    const warehouse = new Warehouse();
    const stock = makeStock(locks, warehouse);

    warehouse.read = async () => {
      await locks.lose('stock:42');
      return 10;
    };

    await expect(stock.take('42', 1)).rejects.toThrow(LockLostError);

    expect(warehouse.quantities.get('42')).toBe(10);
    expect(locks.calls).toMatchObject([{ outcome: 'lost' }]);
  });

  it('can be made by Nest', async () => {
    const locks = new TestLocks();
    const module = await Test.createTestingModule({
      imports: [LockTestingModule.forRoot({ locks, waitMs: 0 })],
      providers: [StockService, Warehouse],
    }).compile();

    locks.hold('stock:42');
    await expect(module.get(StockService).take('42', 1)).rejects.toThrow(LockNotAcquiredError);
    await module.close();
  });

  it('sells nothing while Redis is down', async () => {
    const locks = new TestLocks({ waitMs: 0 });
    const stock = makeStock(locks);

    locks.storeDown();
    await expect(stock.take('42', 1)).rejects.toThrow(LockStoreError);

    locks.storeUp();
    expect(await stock.take('42', 1)).toBe(9);
  });
});
