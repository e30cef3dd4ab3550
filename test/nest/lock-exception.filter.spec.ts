import { describe, expect, it } from '@jest/globals';
import {
  applyDecorators,
  type ArgumentsHost,
  ConflictException,
  Controller,
  Get,
  Header,
  type INestApplication,
  Injectable,
  Param,
  Res,
  UseFilters,
} from '@nestjs/common';
import { APP_FILTER, ExternalContextCreator } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import {
  LockAbortedError,
  LockCommitUnknownError,
  LockConfigError,
  LockDeadlockError,
  Locked,
  LockError,
  type LockErrorCode,
  LockExceptionFilter,
  type LockExceptionFilterOptions,
  LockFencedError,
  LockInTransactionError,
  LockKeyError,
  LockLostError,
  LockNotAcquiredError,
  LockNotAdoptedError,
  LockNotHeldError,
  LockQueueFullError,
  LockService,
  LockStoreError,
  RedisLockModule,
} from 'nestjs-locked';
import type { ServerResponse } from 'node:http';
import { afterTest } from '../support/after-test.js';
import { whileBusy } from '../support/busy-lock.js';
import { eventually } from '../support/eventually.js';
import { type HttpApp, startHttp, startNest } from '../support/nest-app.js';
import { useRedisServer } from '../support/own-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const ERRORS: Readonly<Record<LockErrorCode, LockError>> = {
  LOCK_NOT_ACQUIRED: new LockNotAcquiredError('secret', 'secret', 20),
  LOCK_STORE_FAILED: new LockStoreError('secret', 'secret'),
  LOCK_ABORTED: new LockAbortedError('secret', 'secret'),
  LOCK_LOST: new LockLostError('secret', 'secret', 'expired'),
  LOCK_FENCED: new LockFencedError('secret', 'secret', 1, 2),
  LOCK_COMMIT_UNKNOWN: new LockCommitUnknownError('secret', 'secret'),
  LOCK_IN_TRANSACTION: new LockInTransactionError('secret', 'secret'),
  LOCK_KEY_INVALID: new LockKeyError('secret'),
  LOCK_CONFIG_INVALID: new LockConfigError('secret'),
  LOCK_QUEUE_FULL: new LockQueueFullError('secret', 'secret'),
  LOCK_DEADLOCK: new LockDeadlockError('secret', 'secret', []),
  LOCK_NOT_ADOPTED: new LockNotAdoptedError('secret', 'secret'),
  LOCK_NOT_HELD: new LockNotHeldError('secret', 'secret'),
};

/** What a handler may say about its body with `@Header`: none of it may be sent with the answer of the filter. */
const DESCRIPTIONS: readonly (readonly [name: string, value: string])[] = [
  ['Content-Digest', 'sha-256=:AAAA:'],
  ['Content-Disposition', 'attachment'],
  ['Content-Encoding', 'gzip'],
  ['Content-Language', 'de'],
  ['Content-Length', '7'],
  ['Content-Location', '/other'],
  ['Content-MD5', 'AAAA'],
  ['Content-Range', 'bytes 0-6/7'],
  ['Content-Transfer-Encoding', 'binary'],
  ['Accept-Ranges', 'bytes'],
  ['Digest', 'sha-256=AAAA'],
  ['ETag', '"7"'],
  ['Last-Modified', 'Fri, 27 Nov 2026 00:00:00 GMT'],
  ['Repr-Digest', 'sha-256=:AAAA:'],
  ['Signature', 'sig=:AAAA:'],
  ['Signature-Input', 'sig=("content-digest")'],
  ['SourceMap', '/other'],
  ['Trailer', 'Digest'],
  ['Transfer-Encoding', 'chunked'],
  ['Age', '7'],
  ['Expires', 'Sat, 28 Nov 2026 00:00:00 GMT'],
  ['Pragma', 'public'],
  ['Refresh', '0; url=/other'],
  ['Cache-Control', 'public'],
  ['CDN-Cache-Control', 'max-age=7'],
  ['Cloudflare-CDN-Cache-Control', 'max-age=7'],
  ['Netlify-CDN-Cache-Control', 'max-age=7'],
  ['Vercel-CDN-Cache-Control', 'max-age=7'],
  ['Edge-Control', 'cache-maxage=7'],
  ['Surrogate-Control', 'max-age=7'],
  ['X-Accel-Expires', '7'],
  ['X-Accel-Redirect', '/other'],
  ['X-Lighttpd-Send-File', '/other'],
  ['X-LiteSpeed-Cache-Control', 'public'],
  ['X-LiteSpeed-Location', '/other'],
  ['X-Reproxy-URL', 'http://other'],
  ['X-Sendfile', '/other'],
];

/** Fastify's response wraps that of Node. */
type Response = ServerResponse & { readonly raw?: ServerResponse };

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

  @Get('failing')
  fail(@Param('id') code: LockErrorCode): void {
    throw ERRORS[code];
  }

  @Get('failing-in-work')
  failInWork(): void {
    throw new LockStoreError('secret', 'secret', undefined, true);
  }

  @Get('table')
  @Header('Content-Type', 'text/csv')
  @Header('Content-Disposition', 'attachment; filename="stock.csv"')
  @Header('Cache-Control', 'public, max-age=3600')
  @Locked('stock:<id>', { waitMs: 0 })
  async table(@Param('id') id: string): Promise<string> {
    return `id\n${id}`;
  }

  @Get('described')
  @applyDecorators(...DESCRIPTIONS.map(([name, value]) => Header(name, value)))
  @Header('Vary', 'Origin')
  @Header('Content-Security-Policy', "default-src 'none'")
  @Locked('stock:<id>', { waitMs: 0 })
  async described(@Param('id') id: string): Promise<string> {
    return id;
  }

  @Get('named')
  async named(
    @Param('id') id: string,
    @Res({ passthrough: true }) response: Response,
  ): Promise<string> {
    (response.raw ?? response).statusMessage = 'In stock';
    return this.take(id);
  }

  @Get('own')
  answersItself(@Res() response: ServerResponse & { hijack?(): void }): void {
    if (response.hijack === undefined) response.writeHead(200);
    else response.hijack();
    throw ERRORS.LOCK_LOST;
  }

  @Get('late')
  late(@Res() response: Response): void {
    const raw = response.raw ?? response;
    raw.writeHead(200);
    raw.write('begun');
    throw ERRORS.LOCK_LOST;
  }
}

/** As middleware does that compresses a body: it does not know the length when it sends the headers. */
function withoutLength(_request: unknown, response: ServerResponse, next: () => void): void {
  const writeHead = response.writeHead.bind(response);
  Object.assign(response, {
    writeHead(status: number, headers: Record<string, string> = {}) {
      response.removeHeader('content-length');
      delete headers['content-length'];
      return writeHead(status, headers);
    },
  });
  next();
}

@Controller('filtering/:id')
@UseFilters(LockExceptionFilter)
class FilteringController extends StockController {}

const server = useRedisServer();

async function get({ url }: HttpApp, id: string): Promise<unknown[]> {
  const response = await fetch(`${url}/stock/${id}`);
  const text = await response.text();
  return [response.status, response.headers.get('retry-after'), text];
}

describe.each([
  ['Express', undefined],
  ['Fastify', (): FastifyAdapter => new FastifyAdapter()],
])('LockExceptionFilter on %s', (_, adapter) => {
  function startShop(
    options?: LockExceptionFilterOptions,
    configure?: (app: INestApplication) => unknown,
  ): Promise<HttpApp> {
    return startHttp(
      {
        imports: [RedisLockModule.forRoot({ connection: server.url, leaseMs: 1_000 })],
        controllers: [StockController],
        providers: [{ provide: APP_FILTER, useValue: new LockExceptionFilter(options) }],
      },
      configure,
      adapter?.(),
    );
  }

  it('answers 423 with Retry-After while somebody else holds the lock, then 200 [D152]', async () => {
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

  it('answers JSON where the handler would have sent something else', async () => {
    const shop = await startShop();
    const id = uniqueKey();
    const read = async (): Promise<unknown[]> => {
      const response = await fetch(`${shop.url}/stock/${id}/table`);
      const shown = ['content-type', 'content-disposition', 'cache-control'].map((name) =>
        response.headers.get(name),
      );
      return [response.status, ...shown, await response.text()];
    };
    const busy = await shop.app.get(LockService).withLock(`stock:${id}`, () => read());
    expect(busy).toEqual([
      423,
      'application/json; charset=utf-8',
      null,
      'no-store',
      '{"statusCode":423,"code":"LOCK_NOT_ACQUIRED","message":"In use, try again"}',
    ]);
    expect(await read()).toEqual([
      200,
      expect.stringContaining('text/csv'),
      'attachment; filename="stock.csv"',
      'public, max-age=3600',
      `id\n${id}`,
    ]);
  });

  it('does not send headers with which the handler describes its own body', async () => {
    const shop = await startShop();
    const id = uniqueKey();
    await shop.app.get(LockService).withLock(`stock:${id}`, async () => {
      const response = await fetch(`${shop.url}/stock/${id}/described`);
      expect([response.status, await response.json()]).toMatchObject([423, { statusCode: 423 }]);
      const kept = DESCRIPTIONS.filter(([name, value]) => response.headers.get(name) === value);
      expect(kept).toEqual([]);
      expect(response.headers.get('cache-control')).toBe('no-store');
      expect(response.headers.get('vary')).toContain('Origin');
      expect(response.headers.get('content-security-policy')).toBe("default-src 'none'");
    });
  });

  it('does not send with its status what the handler sends with its own', async () => {
    const shop = await startShop();
    const id = uniqueKey();
    const read = async (): Promise<unknown[]> => {
      const { status, statusText } = await fetch(`${shop.url}/stock/${id}/named`);
      return [status, statusText];
    };
    await whileBusy(shop.app.get(LockService), `stock:${id}`, async () => {
      expect(await read()).toEqual([423, 'Locked']);
    });
    expect(await read()).toEqual([200, 'In stock']);
  });

  it('can be compressed by middleware that does not know the length', async () => {
    const shop = await startShop({}, (app) => app.use(withoutLength));
    const id = uniqueKey();
    await whileBusy(shop.app.get(LockService), `stock:${id}`, async () => {
      const { status, headers } = await fetch(`${shop.url}/stock/${id}`);
      expect([status, headers.get('content-length')]).toEqual([423, null]);
      expect(headers.get('transfer-encoding')).toBe('chunked');
    });
  });

  it('answers 503 with Retry-After while Redis does not answer [D152]', async () => {
    const shop = await startShop({ retryAfterSeconds: 7 });
    afterTest(() => server.resume());
    server.pause();
    const [status, retryAfter, body] = await get(shop, uniqueKey());
    expect([status, retryAfter]).toEqual([503, '7']);
    expect(JSON.parse(String(body))).toMatchObject({ code: 'LOCK_STORE_FAILED' });
    server.resume();
    await eventually(async () => expect((await get(shop, uniqueKey()))[0]).toBe(200));
  });

  it('accepts another status, and leaves other errors unchanged', async () => {
    const shop = await startShop({ statuses: { LOCK_NOT_ACQUIRED: 409 }, retryAfterSeconds: 30 });
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
      adapter?.(),
    );
    const id = uniqueKey();
    await shop.app.get(LockService).withLock(`stock:${id}`, async () => {
      expect((await get(shop, id))[0]).toBe(423);
    });
  });

  it('can be given as a class, with its defaults', async () => {
    const shop = await startHttp(
      {
        imports: [RedisLockModule.forRoot({ connection: server.url })],
        controllers: [StockController],
        providers: [{ provide: APP_FILTER, useClass: LockExceptionFilter }],
      },
      undefined,
      adapter?.(),
    );
    const id = uniqueKey();
    await whileBusy(shop.app.get(LockService), `stock:${id}`, async () => {
      expect((await get(shop, id)).slice(0, 2)).toEqual([423, '1']);
    });
  });

  it('can be set on a controller', async () => {
    const shop = await startHttp(
      {
        imports: [RedisLockModule.forRoot({ connection: server.url })],
        controllers: [FilteringController],
      },
      undefined,
      adapter?.(),
    );
    const id = uniqueKey();
    await whileBusy(shop.app.get(LockService), `stock:${id}`, async () => {
      const response = await fetch(`${shop.url}/filtering/${id}`);
      expect([response.status, response.headers.get('retry-after')]).toEqual([423, '1']);
    });
  });

  it('answers a client that understands only events with one, after which an EventSource reconnects', async () => {
    const shop = await startShop({ retryAfterSeconds: 7 });
    const read = async (code: string, accept: string): Promise<unknown[]> => {
      const response = await fetch(`${shop.url}/stock/${code}/failing`, { headers: { accept } });
      const shown = ['content-type', 'cache-control', 'retry-after'].map((name) =>
        response.headers.get(name),
      );
      return [response.status, ...shown, await response.text()];
    };
    for (const [code, message] of [
      ['LOCK_NOT_ACQUIRED', 'In use, try again'],
      ['LOCK_STORE_FAILED', 'Locks are unavailable, try again'],
      ['LOCK_QUEUE_FULL', 'Too many wait for it, try again'],
      ['LOCK_ABORTED', 'Locks are unavailable, try again'],
    ] as const) {
      const data = JSON.stringify({ code, message, retryAfterMs: 7_000 });
      expect(await read(code, 'text/event-stream')).toEqual([
        200,
        'text/event-stream; charset=utf-8',
        'no-store',
        null,
        `event: error\nretry: 7000\ndata: ${data}\n\n`,
      ]);
    }
    // An EventSource does not reconnect after these.
    const inWork = await fetch(`${shop.url}/stock/1/failing-in-work`, {
      headers: { accept: 'text/event-stream' },
    });
    expect(inWork.status).toBe(503);
    expect((await read('LOCK_KEY_INVALID', 'text/event-stream'))[0]).toBe(500);
    expect((await read('LOCK_NOT_ACQUIRED', 'application/json, text/event-stream'))[0]).toBe(423);
  });

  it('answers 503 without Retry-After if Redis does not answer once the work has begun', async () => {
    const shop = await startShop();
    const [status, retryAfter, body] = await get(shop, '1/failing-in-work');
    expect([status, retryAfter, JSON.parse(String(body))]).toEqual([
      503,
      null,
      { statusCode: 503, code: 'LOCK_STORE_FAILED', message: 'Service Unavailable' },
    ]);
  });

  it('answers every other error of a lock as an internal error, without its message', async () => {
    const shop = await startShop();
    for (const code of [
      'LOCK_LOST',
      'LOCK_NOT_HELD',
      'LOCK_FENCED',
      'LOCK_COMMIT_UNKNOWN',
      'LOCK_IN_TRANSACTION',
      'LOCK_KEY_INVALID',
      'LOCK_CONFIG_INVALID',
    ]) {
      const [status, retryAfter, body] = await get(shop, `${code}/failing`);
      expect([status, retryAfter, JSON.parse(String(body))]).toEqual([
        500,
        null,
        { statusCode: 500, code, message: 'Internal Server Error' },
      ]);
    }
  });

  it('answers no error of a lock with the key', async () => {
    const shop = await startShop();
    for (const code of Object.keys(ERRORS)) {
      const [status, , body] = await get(shop, `${code}/failing`);
      expect(status).toBeGreaterThanOrEqual(423);
      expect(body).toContain(code);
      expect(body).not.toContain('secret');
    }
  });

  it('accepts a status for every code', async () => {
    const codes = Object.keys(ERRORS) as LockErrorCode[];
    const statuses = Object.fromEntries(codes.map((code, index) => [code, 409 + index]));
    const shop = await startShop({ statuses });
    for (const code of codes) {
      const [status] = await get(shop, `${code}/failing`);
      expect([code, status]).toEqual([code, statuses[code]]);
    }
    expect((await get(shop, 'LOCK_IN_TRANSACTION/failing'))[2]).toContain('Unsupported Media Type');
  });

  it('ends a response that the handler was to send itself', async () => {
    const shop = await startShop();
    expect(await get(shop, '42/own')).toEqual([200, null, '']);
  });

  it('ends a response that has begun', async () => {
    const shop = await startShop();
    expect(await get(shop, '42/late')).toEqual([200, null, 'begun']);
  });

  it('answers 503 with Retry-After to requests that wait while the application closes', async () => {
    waiting = false;
    const shop = await startShop();
    const id = uniqueKey();
    const locks = shop.app.get(LockService);
    const lock = await locks.acquire(`patient:${id}`);
    const answer = fetch(`${shop.url}/stock/${id}/patient`, { headers: { connection: 'close' } });
    await eventually(() => expect(waiting).toBe(true));
    const closing = shop.app.close();
    const { status, headers } = await answer;
    expect([status, headers.get('retry-after')]).toEqual([503, '1']);
    await lock.release();
    await closing;
  });
});

describe('the options of LockExceptionFilter', () => {
  const OBJECT = 'must be an object, such as { retryAfterSeconds: 5 }';
  const MAP = 'use an object with a status for a code, such as { LOCK_NOT_ACQUIRED: 409 }';
  const NUMBER = 'use an HTTP status from 400 to 599, because the request has failed';
  const SECONDS = 'use a whole number of seconds, 0 or more';

  it.each<[unknown, string]>([
    [null, `null ${OBJECT}`],
    [409, `409 ${OBJECT}`],
    [[], `an array ${OBJECT}`],
    [LockExceptionFilter, `a function ${OBJECT}`],
    [{ retryAfterSeconds: -1 }, `retryAfterSeconds is -1; ${SECONDS}`],
    [{ retryAfterSeconds: 0.5 }, `retryAfterSeconds is 0.5; ${SECONDS}`],
    [{ retryAfterSeconds: '1' }, `retryAfterSeconds is '1'; ${SECONDS}`],
    [{ retryAfterSeconds: Infinity }, `retryAfterSeconds is Infinity; ${SECONDS}`],
    [{ statuses: [] }, `statuses is an array; ${MAP}`],
    [{ statuses: 409 }, `statuses is 409; ${MAP}`],
    [{ statuses: 'LOCK_NOT_ACQUIRED' }, `statuses is 'LOCK_NOT_ACQUIRED'; ${MAP}`],
    [
      { statuses: { LOCK_BUSY: 409 } },
      "statuses has 'LOCK_BUSY', which is not the code of a lock error; did you mean 'LOCK_NOT_ACQUIRED'?",
    ],
    [
      { statuses: { LockStoreError: 502 } },
      "statuses has 'LockStoreError', which is not the code of a lock error; did you mean 'LOCK_STORE_FAILED'?",
    ],
    [
      { statuses: { LOCK_NOT_AQUIRED: 409 } },
      "statuses has 'LOCK_NOT_AQUIRED', which is not the code of a lock error; did you mean 'LOCK_NOT_ACQUIRED'?",
    ],
    [
      { statuses: { default: 409 } },
      "statuses has 'default', which is not the code of a lock error; leave it out, or write one of LOCK_NOT_ACQUIRED,",
    ],
    [
      { statuses: { 409: 'LOCK_NOT_ACQUIRED' } },
      "statuses has '409', which is not the code of a lock error; write { LOCK_NOT_ACQUIRED: 409 }",
    ],
    [{ statuses: { LOCK_LOST: 200 } }, `statuses.LOCK_LOST is 200; ${NUMBER}`],
    [{ statuses: { LOCK_LOST: 600 } }, `statuses.LOCK_LOST is 600; ${NUMBER}`],
    [{ statuses: { LOCK_LOST: undefined } }, `statuses.LOCK_LOST is undefined; ${NUMBER}`],
    [{ statuses: { LOCK_LOST: 'Conflict' } }, `statuses.LOCK_LOST is 'Conflict'; ${NUMBER}`],
    [{ statuses: { LOCK_LOST: '409' } }, "statuses.LOCK_LOST is '409'; use the number 409"],
  ])('are checked when it is made: %j', (options, message) => {
    const make = (): unknown => new LockExceptionFilter(options as LockExceptionFilterOptions);
    expect(make).toThrow(LockConfigError);
    expect(make).toThrow(`Invalid option of LockExceptionFilter: ${message}`);
  });

  it.each([
    [
      { status: { LOCK_NOT_ACQUIRED: 409 } },
      "'status' of LockExceptionFilter: did you mean 'statuses'?",
    ],
    [{ statusCode: 409 }, "'statusCode' of LockExceptionFilter: did you mean 'statuses'?"],
    [
      { LOCK_NOT_ACQUIRED: 409 },
      "'LOCK_NOT_ACQUIRED' of LockExceptionFilter: write { statuses: { LOCK_NOT_ACQUIRED: 409 } }",
    ],
    [
      { LockNotAcquiredError: 409 },
      "'LockNotAcquiredError' of LockExceptionFilter: write { statuses: { LOCK_NOT_ACQUIRED: 409 } }",
    ],
    [{ retryAfter: 5 }, "'retryAfter' of LockExceptionFilter: did you mean 'retryAfterSeconds'?"],
    [
      { retryAfterMs: 5_000 },
      "'retryAfterMs' of LockExceptionFilter: did you mean 'retryAfterSeconds'?",
    ],
    [
      { message: 'busy' },
      "'message' of LockExceptionFilter: to send something else, write a filter of your own with @Catch(LockError)",
    ],
    [
      { logger: false },
      "'logger' of LockExceptionFilter: leave it out, or write one of statuses, retryAfterSeconds",
    ],
  ])('are the documented ones: %j', (options, message) => {
    const make = (): unknown => new LockExceptionFilter(options as LockExceptionFilterOptions);
    expect(make).toThrow(LockConfigError);
    expect(make).toThrow(`Unknown option ${message}`);
  });
});

describe('LockExceptionFilter with other kinds of requests', () => {
  @Injectable()
  @UseFilters(LockExceptionFilter)
  class Handlers {
    fail(): void {
      throw ERRORS.LOCK_NOT_ACQUIRED;
    }
  }

  /** Nest calls the method as it does for packages that add their own kind of request. */
  async function failureOf(kind: string, ...args: unknown[]): Promise<unknown> {
    const app = await startNest({ providers: [Handlers] });
    const handlers = app.get(Handlers);
    const defaults = [undefined, undefined, undefined, undefined, undefined] as const;
    const handler = app
      .get(ExternalContextCreator)
      .create(handlers, handlers.fail.bind(handlers), 'fail', ...defaults, kind);
    return (handler as (...all: unknown[]) => Promise<unknown>)(...args).catch(
      (error: unknown) => error,
    );
  }

  it('leaves the error unchanged for an unknown kind', async () => {
    expect(await failureOf('telegraf')).toBe(ERRORS.LOCK_NOT_ACQUIRED);
  });

  it('leaves the error unchanged for a gateway client to which it cannot send', async () => {
    expect(await failureOf('ws', {})).toBe(ERRORS.LOCK_NOT_ACQUIRED);
    // There, Nest itself rethrows what a filter has swallowed, but not in a gateway.
    const host = { getType: () => 'ws', switchToWs: () => ({ getClient: () => ({}) }) };
    const answer = (): unknown =>
      new LockExceptionFilter().catch(ERRORS.LOCK_NOT_ACQUIRED, host as unknown as ArgumentsHost);
    expect(answer).toThrow(ERRORS.LOCK_NOT_ACQUIRED);
  });

  it('keeps the original error as the cause of the GraphQL error, but does not show it', () => {
    const host = { getType: () => 'graphql', getArgs: () => [] } as unknown as ArgumentsHost;
    const fail = (): unknown => new LockExceptionFilter().catch(ERRORS.LOCK_STORE_FAILED, host);
    expect(fail).toThrow(
      expect.objectContaining({
        cause: ERRORS.LOCK_STORE_FAILED,
        stack: expect.not.stringContaining('secret'),
      }),
    );
  });

  it('shows the HTTP status of a GraphQL error to no other server than Apollo', () => {
    const host = { getType: () => 'graphql', getArgs: () => [] } as unknown as ArgumentsHost;
    const thrown = (): unknown => {
      try {
        return new LockExceptionFilter().catch(ERRORS.LOCK_NOT_ACQUIRED, host);
      } catch (error) {
        return (error as { readonly extensions: object }).extensions;
      }
    };
    expect(thrown()).toMatchObject({ http: { status: 423 } });
    expect(JSON.parse(JSON.stringify(thrown()))).toEqual({
      code: 'LOCK_NOT_ACQUIRED',
      retryAfterMs: 1_000,
    });
  });
});
