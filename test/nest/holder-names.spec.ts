/** Who is said to hold a lock in an application: the method that has it, in every place where a holder is named. */
import { describe, expect, it } from '@jest/globals';
import { Controller, Get, Injectable, Module, UseInterceptors } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Locked, LockInterceptor, LockService, RedisLockModule } from 'nestjs-locked';
import { LOG_CONTEXT } from '../../libs/nestjs-locked/src/core/log-context.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { type Gate, makeGate } from '../support/gate.js';
import { useRedisServer } from '../support/own-redis.js';
import { RecordingLogger } from '../support/recording-logger.js';

const server = useRedisServer();

@Injectable()
class StockService {
  gate: Gate = makeGate();

  @Locked('stock:<id>', { maxHoldMs: 60_000 })
  async take(id: string): Promise<string> {
    await this.gate.opened;
    return id;
  }

  @Locked('stock:<id>', { label: 'the nightly count' })
  async count(id: string): Promise<string> {
    await this.gate.opened;
    return id;
  }

  @Locked('stock:<id>', { waitMs: 0 })
  async tryTake(id: string): Promise<string> {
    return id;
  }
}

@Controller()
class ShopController {
  constructor(readonly stock: StockService) {}

  @Get('slow')
  @UseInterceptors(LockInterceptor('order:<query.id>'))
  async slow(): Promise<string> {
    await this.stock.gate.opened;
    return 'done';
  }
}

/** @param logger of all applications, as in a process there is only one */
async function startShop(logger = new RecordingLogger()) {
  @Module({
    imports: [RedisLockModule.forRoot({ connection: server.url })],
    controllers: [ShopController],
    providers: [StockService],
  })
  class Root {}
  const app = await NestFactory.create(Root, { logger, abortOnError: false });
  await app.listen(0, '127.0.0.1');
  const stock = app.get(StockService);
  afterTest(async () => {
    stock.gate.open();
    await app.close();
  });
  const locks = app.get(LockService);
  return { stock, locks, url: await app.getUrl() };
}

describe('the holder of a lock is named by its method', () => {
  it('in inspect, list, errors and the log, in its own process and in others', async () => {
    const logger = new RecordingLogger();
    const shop = await startShop(logger);
    const other = await startShop(logger);
    const calls = ['1', '1', '1', '1'].map((id) => shop.stock.take(id));
    const label = 'StockService.take';
    for (const { locks, waiters } of [
      { locks: shop.locks, waiters: 3 },
      { locks: other.locks, waiters: 0 },
    ]) {
      await eventually(async () =>
        expect(await locks.inspect('stock:1')).toMatchObject({ holder: { label }, waiters }),
      );
      for await (const info of locks.list('stock:*'))
        expect(info).toMatchObject({ holder: { label }, waiters });
    }
    await expect(shop.stock.tryTake('1')).rejects.toMatchObject({
      holder: { label },
      message: expect.stringMatching(
        /; the holder is process \d+ on .+, 'StockService\.take'; requested by StockService\.tryTake$/,
      ),
    });
    const busy = other.locks.acquire('stock:1', { waitMs: 50 });
    await expect(busy).rejects.toThrow(/; the holder is process \d+ on .+, 'StockService\.take'$/);

    await other.locks.forceRelease('stock:1');
    await eventually(() => expect(logger.lines(LOG_CONTEXT)).toHaveLength(2));
    expect(logger.lines(LOG_CONTEXT).sort()).toEqual([
      "error Lock 'stock:1' of 'StockService.take' was lost (revoked): an operator took the key away with forceRelease; end the work when lock.signal aborts. Its signal has aborted; the work may overlap with another holder's",
      expect.stringMatching(
        /^warn Lock 'stock:1' was taken away from process \d+ on .+, 'StockService\.take': this process called forceRelease\./,
      ),
    ]);
    shop.stock.gate.open();
    expect(await Promise.all(calls)).toEqual(['1', '1', '1', '1']);
  });

  it('or by its label, or by the handler under a LockInterceptor', async () => {
    const shop = await startShop();
    const other = await startShop();
    const counted = shop.stock.count('1');
    const answered = fetch(`${shop.url}/slow?id=7`);
    for (const { locks } of [shop, other]) {
      await eventually(async () => {
        expect((await locks.inspect('stock:1'))?.holder?.label).toBe('the nightly count');
        expect((await locks.inspect('order:7'))?.holder?.label).toBe('ShopController.slow');
      });
    }
    shop.stock.gate.open();
    expect(await counted).toBe('1');
    expect(await (await answered).text()).toBe('done');
  });
});
