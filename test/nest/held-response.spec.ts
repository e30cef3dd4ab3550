/** Handlers that return a web `Response`, over real connections. */
import { expect, it } from '@jest/globals';
import { Controller, Get, Param, UseInterceptors } from '@nestjs/common';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { Locked, LockInterceptor, LockService, RedisLockModule } from 'nestjs-locked';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterTest } from '../support/after-test.js';
import { type Gate, makeGate } from '../support/gate.js';
import { startHttp } from '../support/nest-app.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const redis = useRedis();

async function* rows(mayEnd: Promise<void>): AsyncGenerator<Uint8Array> {
  yield Buffer.from('first ');
  await mayEnd;
  yield Buffer.from('last');
}

let mayEnd: Gate;

function report(id: string): Response {
  return new Response(ReadableStream.from(rows(mayEnd.opened)) as never, {
    status: 202,
    headers: { 'content-type': 'text/csv', 'x-report': id },
  });
}

@Controller()
class ReportsController {
  @Get('locked/:id')
  @Locked('report:<id>')
  async locked(@Param('id') id: string): Promise<Response> {
    return Promise.resolve(report(id));
  }

  @Get('intercepted/:id')
  @UseInterceptors(LockInterceptor('report:<params.id>'))
  async intercepted(@Param('id') id: string): Promise<Response> {
    return Promise.resolve(report(id));
  }

  @Locked('report:<id>')
  async fetched(id: string, url: string): Promise<Response> {
    return fetch(`${url}/${id}`);
  }
}

it.each([
  ['Express', 'locked', () => new ExpressAdapter()],
  ['Express', 'intercepted', () => new ExpressAdapter()],
  ['Fastify', 'locked', () => new FastifyAdapter()],
  ['Fastify', 'intercepted', () => new FastifyAdapter()],
])('on %s, %s, the lock lasts until the body has been read', async (_, route, adapter) => {
  mayEnd = makeGate();
  const { app, url } = await startHttp(
    {
      imports: [RedisLockModule.forRoot({ connection: redis.url })],
      controllers: [ReportsController],
    },
    undefined,
    adapter(),
  );
  const locks = app.get(LockService);
  const id = uniqueKey();
  const answer = await fetch(`${url}/${route}/${id}`);
  expect(answer.status).toBe(202);
  expect(answer.headers.get('x-report')).toBe(id);
  expect(answer.headers.get('content-type')).toMatch('text/csv');
  expect(await locks.tryAcquire(`report:${id}`)).toBeNull();
  mayEnd.open();
  expect(await answer.text()).toBe('first last');
  await locks.withLock(`report:${id}`, { waitMs: 30_000 }, () => {});
});

it('a response of fetch() that nobody reads keeps no lock', async () => {
  const server = createServer((_, response) => response.end('some text')).listen(0, '127.0.0.1');
  afterTest(() => void server.close());
  await new Promise((resolve) => server.once('listening', resolve));
  const { app } = await startHttp({
    imports: [RedisLockModule.forRoot({ connection: redis.url })],
    controllers: [ReportsController],
  });
  const id = uniqueKey();
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const answer = await app.get(ReportsController).fetched(id, url);
  expect(answer.ok).toBe(true);
  await app.get(LockService).withLock(`report:${id}`, { waitMs: 30_000 }, () => {});
  expect(await answer.text()).toBe('some text');
});
