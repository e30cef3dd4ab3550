import { describe, expect, it } from '@jest/globals';
import { ConflictException, Controller, Get, Param } from '@nestjs/common';
import { APP_FILTER } from '@nestjs/core';
import {
  Locked,
  LockExceptionFilter,
  type LockExceptionFilterOptions,
  LockService,
  RedisLockModule,
} from 'nestjs-locked';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { type HttpApp, startHttp } from '../support/nest-app.js';
import { useRedisServer } from '../support/own-redis.js';
import { uniqueKey } from '../support/unique-key.js';

let waiting = false;

@Controller('stock/:id')
class StockController {
  @Get()
  @Locked('stock:<id>', { waitMs: 20 })
  async take(@Param('id') id: string): Promise<string> {
    if (id === 'sold-out') throw new ConflictException('sold out');
    return id;
  }

  @Get('patient')
  async patient(@Param('id') id: string): Promise<void> {
    waiting = true;
    await this.waitForever(id);
  }

  @Locked('patient:<id>', { waitMs: 60_000 })
  async waitForever(id: string): Promise<string> {
    return Promise.resolve(id);
  }
}

const server = useRedisServer();

function startShop(options?: LockExceptionFilterOptions): Promise<HttpApp> {
  return startHttp({
    imports: [RedisLockModule.forRoot({ connection: server.url, leaseMs: 600 })],
    controllers: [StockController],
    providers: [{ provide: APP_FILTER, useValue: new LockExceptionFilter(options) }],
  });
}

async function get({ url }: HttpApp, id: string): Promise<unknown[]> {
  const response = await fetch(`${url}/stock/${id}`);
  const text = await response.text();
  return [response.status, response.headers.get('retry-after'), text];
}

describe('LockExceptionFilter', () => {
  it('answers 423 with Retry-After while somebody else holds the lock, then 200', async () => {
    const shop = await startShop();
    const id = uniqueKey();
    await shop.app.get(LockService).withLock(`stock:${id}`, async () => {
      const [status, retryAfter, body] = await get(shop, id);
      expect([status, retryAfter]).toEqual([423, '1']);
      expect(JSON.parse(String(body))).toEqual({
        statusCode: 423,
        code: 'LOCK_NOT_ACQUIRED',
        message: 'In use, try again',
      });
    });
    expect(await get(shop, id)).toEqual([200, null, id]);
  });

  it('answers 503 with Retry-After while Redis does not answer', async () => {
    const shop = await startShop({ retryAfterSeconds: 7 });
    afterTest(() => server.resume());
    server.pause();
    const [status, retryAfter, body] = await get(shop, uniqueKey());
    expect([status, retryAfter]).toEqual([503, '7']);
    expect(JSON.parse(String(body))).toMatchObject({ code: 'LOCK_STORE_FAILED' });
  });

  it('takes another status, and leaves other errors as they are', async () => {
    const shop = await startShop({ busyStatus: 409, retryAfterSeconds: 30 });
    const id = uniqueKey();
    await shop.app.get(LockService).withLock(`stock:${id}`, async () => {
      expect((await get(shop, id)).slice(0, 2)).toEqual([409, '30']);
    });
    const [status, retryAfter, body] = await get(shop, 'sold-out');
    expect([status, retryAfter]).toEqual([409, null]);
    expect(body).toContain('sold out');
  });

  it('can be a global filter of the application', async () => {
    const shop = await startHttp(
      {
        imports: [RedisLockModule.forRoot({ connection: server.url })],
        controllers: [StockController],
      },
      (app) => app.useGlobalFilters(new LockExceptionFilter()),
    );
    const id = uniqueKey();
    await shop.app.get(LockService).withLock(`stock:${id}`, async () => {
      expect((await get(shop, id))[0]).toBe(423);
    });
  });

  it('can be named by its class, then with its defaults', async () => {
    const shop = await startHttp({
      imports: [RedisLockModule.forRoot({ connection: server.url })],
      controllers: [StockController],
      providers: [{ provide: APP_FILTER, useClass: LockExceptionFilter }],
    });
    const id = uniqueKey();
    await shop.app.get(LockService).withLock(`stock:${id}`, async () => {
      expect((await get(shop, id)).slice(0, 2)).toEqual([423, '1']);
    });
  });

  it('answers 503 to requests that wait while the application closes', async () => {
    const shop = await startShop();
    const id = uniqueKey();
    const locks = shop.app.get(LockService);
    const lock = await locks.acquire(`patient:${id}`);
    const answer = fetch(`${shop.url}/stock/${id}/patient`, { headers: { connection: 'close' } });
    await eventually(() => expect(waiting).toBe(true));
    const closing = shop.app.close();
    expect((await answer).status).toBe(503);
    await lock.release();
    await closing;
  });
});
