/** Server-sent events under a lock, read as a browser reads them. */
import { describe, expect, it } from '@jest/globals';
import {
  type CallHandler,
  Controller,
  type ExecutionContext,
  Logger,
  type MessageEvent,
  type NestInterceptor,
  Param,
  Sse,
  type Type,
  UseFilters,
  UseInterceptors,
} from '@nestjs/common';
import { ExecutionContextHost } from '@nestjs/core/helpers/execution-context-host.js';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import {
  Locked,
  LockExceptionFilter,
  LockInterceptor,
  LockKeyError,
  LockService,
  RedisLockModule,
} from 'nestjs-locked';
import {
  concat,
  lastValueFrom,
  NEVER,
  type Observable,
  of,
  startWith,
  throwError,
  toArray,
} from 'rxjs';
import { LOG_CONTEXT } from '../../libs/nestjs-locked/src/core/log-context.js';
import { afterTest } from '../support/after-test.js';
import { whileBusy } from '../support/busy-lock.js';
import { eventually } from '../support/eventually.js';
import { startHttp } from '../support/nest-app.js';
import { startRedisServer } from '../support/own-redis.js';
import { RecordingLogger } from '../support/recording-logger.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const redis = useRedis();

class PassingInterceptor implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle();
  }
}

@Controller('stock/:id')
@UseFilters(LockExceptionFilter)
class StockController {
  @Sse('intercepted')
  @UseInterceptors(LockInterceptor('stock:<params.id>', { waitMs: 50 }))
  intercepted(@Param('id') id: string): Observable<MessageEvent> {
    return of({ data: { id } }, { data: 'sold' });
  }

  @Sse('tried')
  @UseInterceptors(LockInterceptor('stock:<params.id>', { waitMs: 0 }))
  tried(@Param('id') id: string): Observable<MessageEvent> {
    return this.intercepted(id);
  }

  @Sse('open')
  @UseInterceptors(LockInterceptor('stock:<params.id>', { waitMs: 50 }))
  open(): Observable<MessageEvent> {
    return NEVER.pipe(startWith({ data: 'first' }));
  }

  @Sse('skipped')
  @UseInterceptors(LockInterceptor('stock:<params.id>', { waitMs: 0, onBusy: 'skip' }))
  skipped(): Observable<MessageEvent> {
    return of({ data: 'sold' });
  }

  @Sse('mistaken')
  @UseInterceptors(LockInterceptor('stock:<params.id>', { waitMs: 50 }))
  mistaken(): Observable<MessageEvent> {
    const mistake = throwError(() => new LockKeyError('no shelf'));
    return concat(of({ data: 'first' }), mistake);
  }

  @Sse('wrong')
  @UseInterceptors(LockInterceptor('stock:<query.shop>', { waitMs: 50 }))
  wrong(): Observable<MessageEvent> {
    return of({ data: 'sold' });
  }

  @Sse('locked')
  @Locked('stock:<id>', { waitMs: 50 })
  async locked(@Param('id') id: string): Promise<Observable<MessageEvent>> {
    return of({ data: { id } });
  }

  @Sse('behind')
  @UseInterceptors(PassingInterceptor)
  @Locked('stock:<id>', { waitMs: 50 })
  async behindInterceptor(@Param('id') id: string): Promise<Observable<MessageEvent>> {
    return of({ data: { id } });
  }
}

const ADAPTERS: [name: string, adapter?: () => FastifyAdapter][] = [
  ['Express'],
  ['Fastify', () => new FastifyAdapter()],
];

describe.each(ADAPTERS)('an event stream on %s', (_, adapter) => {
  async function startShop(url = redis.url) {
    const { app, url: address } = await startHttp(
      {
        imports: [RedisLockModule.forRoot({ connection: url, leaseMs: 3_000 })],
        controllers: [StockController as Type],
      },
      undefined,
      adapter?.(),
    );
    return { locks: app.get(LockService), address };
  }

  async function read(url: string): Promise<[status: number, body: string]> {
    const response = await fetch(url);
    return [response.status, await response.text()];
  }

  it.each([
    ['after its wait', 'intercepted'],
    ['that tries once', 'tried'],
  ])(
    'under a LockInterceptor reports to a client in an event %s, and then serves the next',
    async (_when, route) => {
      const { locks, address } = await startShop();
      const id = uniqueKey();
      await whileBusy(locks, `stock:${id}`, async () => {
        const [status, body] = await read(`${address}/stock/${id}/${route}`);
        expect(status).toBe(200);
        expect(body).toContain('event: error\n');
        expect(body).toContain('retry: 1000\n');
        expect(body).toContain(
          'data: {"code":"LOCK_NOT_ACQUIRED","message":"In use, try again","retryAfterMs":1000}\n',
        );
        expect(body).not.toContain(id);
      });
      const [status, body] = await read(`${address}/stock/${id}/${route}`);
      expect([status, body.match(/data: .*/g)]).toEqual([
        200,
        [`data: {"id":"${id}"}`, 'data: sold'],
      ]);
    },
  );

  it('under a LockInterceptor reports that Redis does not answer', async () => {
    const server = await startRedisServer();
    const { address } = await startShop(server.url);
    afterTest(() => server.resume());
    server.pause();
    const id = uniqueKey();
    const url = `${address}/stock/${id}/intercepted`;
    const told = async (): Promise<number> => {
      const startedAt = performance.now();
      const [status, body] = await read(url);
      expect([status, body]).toEqual([200, expect.stringContaining('"code":"LOCK_STORE_FAILED"')]);
      expect(body).not.toContain(id);
      return performance.now() - startedAt;
    };
    await told();
    // The error is known by now, and reported before the headers are sent.
    await eventually(async () => expect(await told()).toBeLessThan(50));
    server.resume();
    await eventually(async () =>
      expect(await read(`${address}/stock/${id}/intercepted`)).toEqual([
        200,
        expect.stringContaining('data: sold'),
      ]),
    );
  });

  it('under a LockInterceptor logs a mistake, and does not ask the client to try again', async () => {
    const { address } = await startShop();
    const log = new RecordingLogger();
    Logger.overrideLogger(log);
    afterTest(() => Logger.overrideLogger(false));
    const [status, body] = await read(`${address}/stock/${uniqueKey()}/mistaken`);
    expect([status, body]).toEqual([200, expect.stringContaining('"code":"LOCK_KEY_INVALID"')]);
    expect(body).not.toContain('retry:');
    expect(log.lines(LOG_CONTEXT)).toEqual(['error LockKeyError: no shelf']);
  });

  it('under a LockInterceptor keeps the lock until the client has left', async () => {
    const { locks, address } = await startShop();
    const id = uniqueKey();
    const client = new AbortController();
    const response = await fetch(`${address}/stock/${id}/open`, { signal: client.signal });
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    let text = '';
    while (!text.includes('data: first')) {
      const { value, done } = await reader.read();
      if (done) throw new Error(`It has ended, with ${text}`);
      text += Buffer.from(value).toString();
    }
    expect(await locks.tryAcquire(`stock:${id}`)).toBeNull();
    client.abort();
    await eventually(async () => {
      const lock = await locks.tryAcquire(`stock:${id}`);
      expect(lock).not.toBeNull();
      await lock?.release();
    });
  });

  it('under a LockInterceptor reports that the lock is lost, and ends', async () => {
    const { locks, address } = await startShop();
    const id = uniqueKey();
    const ended = read(`${address}/stock/${id}/open`);
    await eventually(async () => expect(await locks.inspect(`stock:${id}`)).not.toBeNull());
    await locks.forceRelease(`stock:${id}`);
    const [status, body] = await ended;
    expect([status, body]).toEqual([200, expect.stringContaining('data: first')]);
    expect(body).toContain('event: error\n');
    expect(body).toContain('data: {"code":"LOCK_LOST","message":"Internal Server Error"}\n');
    expect(body).not.toContain('retry:');
  });

  it('under a LockInterceptor has an error status if its client should not try again', async () => {
    const { address } = await startShop();
    const [status, body] = await read(`${address}/stock/${uniqueKey()}/wrong`);
    expect([status, body]).toEqual([500, expect.stringContaining('"code":"LOCK_KEY_INVALID"')]);
  });

  it('that is skipped ends without an event', async () => {
    const { locks, address } = await startShop();
    const id = uniqueKey();
    await whileBusy(locks, `stock:${id}`, async () => {
      expect((await read(`${address}/stock/${id}/skipped`))[1].trim()).toBe('');
    });
    expect((await read(`${address}/stock/${id}/skipped`))[1]).toContain('data: sold');
  });

  it('of an async method under @Locked answers an EventSource with an event, others with the status of the filter', async () => {
    const { locks, address } = await startShop();
    const id = uniqueKey();
    await whileBusy(locks, `stock:${id}`, async () => {
      const [status, body] = await read(`${address}/stock/${id}/locked`);
      expect([status, body]).toEqual([423, expect.stringContaining('In use, try again')]);
      const headers = { accept: 'text/event-stream' };
      const response = await fetch(`${address}/stock/${id}/locked`, { headers });
      expect([response.status, await response.text()]).toEqual([
        200,
        expect.stringContaining('event: error\nretry: 1000\ndata: {"code":"LOCK_NOT_ACQUIRED"'),
      ]);
    });
    const [status, body] = await read(`${address}/stock/${id}/locked`);
    expect([status, body]).toEqual([200, expect.stringContaining(`data: {"id":"${id}"}`)]);
    const lock = await locks.tryAcquire(`stock:${id}`);
    expect(lock).not.toBeNull();
    await lock?.release();
  });

  it('of a method under @Locked behind an interceptor gets no message of this library', async () => {
    const { locks, address } = await startShop();
    const id = uniqueKey();
    await whileBusy(locks, `stock:${id}`, async () => {
      const [status, body] = await read(`${address}/stock/${id}/behind`);
      expect([status, body]).toEqual([200, expect.stringContaining('event: error\n')]);
      expect(body).toContain('data: Internal server error\n');
    });
    expect((await read(`${address}/stock/${id}/behind`))[1]).toContain(`data: {"id":"${id}"}`);
  });
});

it('reports a key that cannot be built in an event if Nest has sent the headers, as Nest 11 does', async () => {
  const Locks = LockInterceptor('stock:<params.id>') as new (locks: object) => NestInterceptor;
  const context = new ExecutionContextHost(
    [{ params: {} }, { headersSent: true }],
    StockController,
    Reflect.get(StockController.prototype, 'open'),
  );
  const events = await new Locks({}).intercept(context, { handle: () => of('ran') });
  const message = 'Internal Server Error';
  expect(await lastValueFrom(events.pipe(toArray()))).toEqual([
    { type: 'error', data: { code: 'LOCK_KEY_INVALID', message } },
  ]);
});
