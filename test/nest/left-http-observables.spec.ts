/** HTTP handlers under a LockInterceptor that return an Observable, and whose client leaves. */
import { expect, it } from '@jest/globals';
import { Controller, Get, Param, UseInterceptors } from '@nestjs/common';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { LockInterceptor, LockService, RedisLockModule } from 'nestjs-locked';
import { finalize, interval, tap } from 'rxjs';
import { eventually } from '../support/eventually.js';
import { makeGate } from '../support/gate.js';
import { startHttp } from '../support/nest-app.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const redis = useRedis();

it.each([
  ['Express', () => new ExpressAdapter()],
  ['Fastify', () => new FastifyAdapter()],
])('on %s, the source is unsubscribed and the lock released', async (_, adapter) => {
  const begun = makeGate();
  let isLeft = false;

  @Controller('prices')
  class PricesController {
    @Get(':id')
    @UseInterceptors(LockInterceptor('prices:<params.id>'))
    watch(@Param('id') _id: string) {
      return interval(1).pipe(
        tap(() => begun.open()),
        finalize(() => {
          isLeft = true;
        }),
      );
    }
  }

  const { app, url } = await startHttp(
    {
      imports: [RedisLockModule.forRoot({ connection: redis.url })],
      controllers: [PricesController],
    },
    undefined,
    adapter(),
  );
  const id = uniqueKey();
  const client = new AbortController();
  const answer = fetch(`${url}/prices/${id}`, { signal: client.signal }).catch(() => 'left');
  await begun.opened;
  client.abort();
  expect(await answer).toBe('left');
  await app.get(LockService).withLock(`prices:${id}`, { waitMs: 20_000 }, () => {});
  await eventually(() => expect(isLeft).toBe(true));
});
