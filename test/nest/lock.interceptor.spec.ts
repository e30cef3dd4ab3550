import { describe, expect, it } from '@jest/globals';
import {
  BadRequestException,
  Body,
  type CanActivate,
  Controller,
  type ExecutionContext,
  Get,
  Header,
  type INestApplicationContext,
  Injectable,
  type NestInterceptor,
  Param,
  ParseIntPipe,
  Post,
  StreamableFile,
  type Type,
  UseGuards,
  UseInterceptors,
} from '@nestjs/common';
import { APP_FILTER, APP_INTERCEPTOR, ExternalContextCreator } from '@nestjs/core';
import { ExecutionContextHost } from '@nestjs/core/helpers/execution-context-host.js';
import { MessagePattern } from '@nestjs/microservices';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import {
  LockConfigError,
  LockExceptionFilter,
  LockInterceptor,
  lockKey,
  LockKeyError,
  LockService,
  type RequestKey,
} from 'nestjs-locked';
import { LockTestingModule } from 'nestjs-locked/testing';
import { lastValueFrom, of } from 'rxjs';
import { PassThrough } from 'node:stream';
import { whileBusy } from '../support/busy-lock.js';
import { eventually } from '../support/eventually.js';
import { startHttp, startNest } from '../support/nest-app.js';
import { uniqueKey } from '../support/unique-key.js';

const BUSY_AT_ONCE = { waitMs: 0 };
let runs = 0;
let file = new PassThrough();

interface Request {
  readonly params: { readonly id: string };
  readonly query: { readonly shop?: string };
  user?: object;
}

class TokenGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    context.switchToHttp().getRequest<Request>().user = { id: 'ann' };
    return true;
  }
}

@Controller('stock/:id')
class StockController {
  @Get('params')
  @UseInterceptors(LockInterceptor('key:<params.id>', BUSY_AT_ONCE))
  ofParams(@Param('id', ParseIntPipe) id: number): string {
    return `run ${id}`;
  }

  @Post('body')
  @UseInterceptors(LockInterceptor('key:<body.items[].sku>', BUSY_AT_ONCE))
  ofBody(@Body() { items }: { items: object[] }): string {
    return `run ${items.length}`;
  }

  @Get('query')
  @UseInterceptors(LockInterceptor('key:<query.shop>', BUSY_AT_ONCE))
  ofQuery(): string {
    return 'run';
  }

  @Get('headers')
  @UseInterceptors(LockInterceptor('key:<headers.Idempotency-Key>', BUSY_AT_ONCE))
  ofHeaders(): string {
    return 'run';
  }

  @Get('user')
  @UseGuards(TokenGuard)
  @UseInterceptors(LockInterceptor('key:<user.id>', BUSY_AT_ONCE))
  ofUser(): string {
    return 'run';
  }

  @Get('function')
  @UseInterceptors(
    LockInterceptor(({ params, query }: Request, context) => {
      if (query.shop === undefined) throw new BadRequestException('which shop?');
      return [lockKey`key:${query.shop}:${params.id}`, context.getHandler().name];
    }, BUSY_AT_ONCE),
  )
  ofFunction(): string {
    return 'run';
  }

  @Get('skipped')
  @UseInterceptors(LockInterceptor('key:<params.id>', { waitMs: 0, onBusy: 'skip' }))
  skipped(): string {
    return `run ${++runs}`;
  }

  @Get('substituted')
  @UseInterceptors(
    LockInterceptor('key:<params.id>', { waitMs: 0, onBusy: ({ key }) => `${key} is busy` }),
  )
  substituted(): string {
    return `run ${++runs}`;
  }

  @Get('described')
  @Header('Cache-Control', 'public, max-age=3600')
  @Header('CDN-Cache-Control', 'max-age=3600')
  @Header('Content-Length', '5')
  @Header('ETag', '"7"')
  @Header('Vary', 'Origin')
  @UseInterceptors(LockInterceptor('key:<params.id>', { waitMs: 0, onBusy: 'skip' }))
  described(): string {
    return 'run 7';
  }

  @Get('file')
  @UseInterceptors(LockInterceptor('key:<params.id>', BUSY_AT_ONCE))
  sendFile(): StreamableFile {
    return new StreamableFile(file);
  }
}

describe.each([
  ['Express', undefined],
  ['Fastify', (): FastifyAdapter => new FastifyAdapter()],
])('a route under a LockInterceptor on %s', (_, adapter) => {
  async function startShop() {
    const { app, url } = await startHttp(
      {
        imports: [LockTestingModule.forRoot()],
        controllers: [StockController],
        providers: [{ provide: APP_FILTER, useClass: LockExceptionFilter }],
      },
      undefined,
      adapter?.(),
    );
    const ask = async (path: string, init?: RequestInit): Promise<[number, string]> => {
      const response = await fetch(`${url}/stock/${path}`, init);
      return [response.status, await response.text()];
    };
    return { locks: app.get(LockService), ask, url };
  }

  const json = { method: 'POST', headers: { 'content-type': 'application/json' } };

  it.each<[root: string, key: string, path: string, init?: RequestInit]>([
    ['its params, before they are converted', 'key:042', '042/params'],
    ['its body', 'key:b', '1/body', { ...json, body: '{"items":[{"sku":"a"},{"sku":"b"}]}' }],
    ['its query', 'key:berlin', '1/query?shop=berlin'],
    ['its headers', 'key:4711', '1/headers', { headers: { 'IDEMPOTENCY-KEY': '4711' } }],
    ['its user', 'key:ann', '1/user'],
    ['a function of the request', 'key:berlin:1', '1/function?shop=berlin'],
    ['a function of the context', 'ofFunction', '1/function?shop=berlin'],
  ])('is locked by %s', async (...[, key, path, init]) => {
    // Jest would take a fourth parameter for its `done`.
    const { locks, ask } = await startShop();
    await whileBusy(locks, key, async () => {
      expect(await ask(path, init)).toEqual([423, expect.stringContaining('In use, try again')]);
    });
    const [status, body] = await ask(path, init);
    expect([Math.floor(status / 100), body]).toEqual([2, expect.stringMatching(/^run/)]);
  });

  it("answers with an empty body for 'skip' or with the result of a function, and does not run", async () => {
    const { locks, ask } = await startShop();
    runs = 0;
    await whileBusy(locks, 'key:1', async () => {
      expect(await ask('1/skipped')).toEqual([200, '']);
      expect(await ask('1/substituted')).toEqual([200, 'key:1 is busy']);
      expect(runs).toBe(0);
    });
    expect(await ask('1/skipped')).toEqual([200, 'run 1']);
    expect(await ask('1/substituted')).toEqual([200, 'run 2']);
  });

  it('does not send with the result of its onBusy what the handler says about its own body', async () => {
    const { locks, url } = await startShop();
    const names = ['cache-control', 'cdn-cache-control', 'etag', 'vary'];
    const read = async (): Promise<unknown[]> => {
      const response = await fetch(`${url}/stock/1/described`, {
        signal: AbortSignal.timeout(10_000),
      });
      return [await response.text(), ...names.map((name) => response.headers.get(name))];
    };
    await whileBusy(locks, 'key:1', async () => {
      expect(await read()).toEqual(['', 'no-store', null, null, 'Origin']);
    });
    const described = ['public, max-age=3600', 'max-age=3600', '"7"', 'Origin'];
    expect(await read()).toEqual(['run 7', ...described]);
  });

  it('keeps the lock until its file has been sent', async () => {
    const { ask, url } = await startShop();
    file = new PassThrough();
    file.write('begun');
    const response = await fetch(`${url}/stock/1/file`);
    expect((await ask('1/params'))[0]).toBe(423);
    file.end(', ended');
    expect(await response.text()).toBe('begun, ended');
    await eventually(async () => expect(await ask('1/params')).toEqual([200, 'run 1']));
  });

  it('answers with the error that its key function throws', async () => {
    const { ask } = await startShop();
    expect(await ask('1/function')).toEqual([400, expect.stringContaining('which shop?')]);
  });

  it('does not tell a client why there is no key', async () => {
    const { ask } = await startShop();
    const [status, body] = await ask('1/query');
    expect([status, JSON.parse(body)]).toEqual([
      500,
      { statusCode: 500, code: 'LOCK_KEY_INVALID', message: 'Internal Server Error' },
    ]);
  });
});

describe('LockInterceptor', () => {
  it.each<[unknown, string]>([
    [
      'stock:<id>',
      "Invalid key template 'stock:<id>' of LockInterceptor: <id> must begin with params, body, query, headers, user, args or data, as in <params.id>; use a function for anything else",
    ],
    ['stock:<0.id>', "'stock:<0.id>' of LockInterceptor: <0.id> must begin with params, body"],
    ['stock:<params.id', "Invalid key template 'stock:<params.id' of LockInterceptor: '<' and '>'"],
    [
      'stock/:id',
      "Invalid key template 'stock/:id' of LockInterceptor: ':id' is not filled in, so that all calls would share one lock; write 'stock/<params.id>'",
    ],
    [':id/stock', 'write <params.id>'],
    ['stock:{body.id}', "write 'stock:<body.id>'"],
    [
      'stock:#params.id',
      "Invalid key template 'stock:#params.id' of LockInterceptor: '#params.id' is not filled in, so that all calls would share one lock; write 'stock:<params.id>'",
    ],
    [
      'stock::id',
      "':id' is not filled in, so that all calls would share one lock; write 'stock:<params.id>', or another text if no value is meant",
    ],
    ['stock:#orderId', "'#orderId' is not filled in"],
    ['stock:$1', "'$1' is not filled in"],
    ['stock::params.id', "':params.id' is not filled in"],
    [
      ':params.id',
      "':params.id' is not filled in, so that all calls would share one lock; write <params.id>",
    ],
    ['stock:$body.order.id', "write 'stock:<body.order.id>'"],
    ['stock:[query.id]', "write 'stock:<query.id>'"],
    [42, 'Invalid key of LockInterceptor: 42 must be a template such as'],
    [['a', 'b'], 'an array must be a template such as'],
    [['a', 'b'], "'stock:<params.id>', or a function, which may return several keys"],
    [undefined, "or a function: write @UseInterceptors(LockInterceptor('stock:<params.id>'))"],
  ])('refuses %j while the class is being defined', (key, message) => {
    const make = (): unknown => LockInterceptor(key as string);
    expect(make).toThrow(LockConfigError);
    expect(make).toThrow(message);
  });

  it('names a wrong key before a wrong option', () => {
    const make = (): unknown => LockInterceptor(5_000 as never, 'stock' as never);
    expect(make).toThrow('Invalid key of LockInterceptor: 5000 must be a template');
  });

  it('refuses an option that only @Locked has', () => {
    const options = { returns: 'observable' } as object;
    expect(() => LockInterceptor('report', options)).toThrow(
      "Invalid option of LockInterceptor('report'): returns is for @Locked; an interceptor sees what",
    );
  });

  function start(controller: Type, ...interceptors: Type[]): Promise<unknown> {
    return startNest({
      imports: [LockTestingModule.forRoot()],
      controllers: [controller],
      providers: interceptors.map((useClass) => ({ provide: APP_INTERCEPTOR, useClass })),
    });
  }

  it.each([null, {}])('says that the service is mocked if it is %p', async (mock) => {
    class ReportController {}
    const context = new ExecutionContextHost([], ReportController, function read() {});
    const Interceptor = LockInterceptor(() => 'report') as new (locks: unknown) => NestInterceptor;
    const answer = await new Interceptor(mock).intercept(context, { handle: () => of('ran') });
    await expect(lastValueFrom(answer)).rejects.toThrow(
      'Cannot lock ReportController.read: LockService is mocked; use LockTestingModule or withTes',
    );
  });

  it('says that Nest has to make the interceptor if it was made with new', async () => {
    class ReportController {}
    const context = new ExecutionContextHost([], ReportController, function read() {});
    const Interceptor = LockInterceptor(() => 'report') as new () => NestInterceptor;
    const answer = await new Interceptor().intercept(context, { handle: () => of('ran') });
    await expect(lastValueFrom(answer)).rejects.toThrow(
      'Cannot lock ReportController.read: its LockInterceptor was made with new, so it has no LockSer',
    );
  });

  it('refuses to start on a route that has no value for the beginning of its template', async () => {
    @Controller()
    class ReportController {
      @Get()
      @UseInterceptors(LockInterceptor('report:<args.id>'))
      read(): string {
        return 'report';
      }
    }
    await expect(start(ReportController)).rejects.toThrow(
      "Cannot lock ReportController.read with LockInterceptor('report:<args.id>'): an HTTP request has no 'args'; begin with params, body, query, headers or user, or use a function",
    );
  });

  it('refuses to start on a class with a handler that has no such value', async () => {
    @Controller()
    @UseInterceptors(LockInterceptor('report:<params.id>'))
    class ReportController {
      @Get(':id')
      read(): string {
        return 'report';
      }

      @MessagePattern('report')
      send(): string {
        return 'report';
      }
    }
    await expect(start(ReportController)).rejects.toThrow(
      "Cannot lock ReportController.send with LockInterceptor('report:<params.id>'): a message or event of a microservice has no 'params'; begin with data, or use a function",
    );
  });

  it('starts on classes whose other methods are no handlers', async () => {
    @Controller()
    @UseInterceptors(LockInterceptor('report:<params.id>'))
    class ReportController {
      @Get(':id')
      read(): string {
        return this.write();
      }

      write(): string {
        return 'report';
      }
    }
    await expect(start(ReportController)).resolves.toBeDefined();
  });

  describe('of all handlers of an application', () => {
    @Injectable()
    class Handlers {
      take(_root: unknown, args: unknown): string | AsyncGenerator<string> {
        return (args as { live?: boolean } | undefined)?.live === true ? this.#events() : 'taken';
      }

      async *#events(): AsyncGenerator<string> {
        yield 'first';
        yield 'second';
      }
    }

    let app: INestApplicationContext;

    /** Nest calls the method as it does for packages that add their own kind of request. */
    async function handlerOf(kind: string, key: string | RequestKey) {
      app = await startNest({
        imports: [LockTestingModule.forRoot()],
        providers: [Handlers, { provide: APP_INTERCEPTOR, useClass: LockInterceptor(key) }],
      });
      const handlers = app.get(Handlers);
      const take = handlers.take.bind(handlers);
      Object.defineProperty(take, 'name', { value: 'take' });
      const defaults = [undefined, undefined, undefined, undefined, undefined] as const;
      return app.get(ExternalContextCreator).create(handlers, take, 'take', ...defaults, kind) as (
        ...args: unknown[]
      ) => Promise<unknown>;
    }

    it('fails at the first request that has no such value', async () => {
      const take = await handlerOf('graphql', 'stock:<params.id>');
      const call = take({}, { id: '42' }, {}, {});
      await expect(call).rejects.toThrow(LockConfigError);
      await expect(call).rejects.toThrow(
        "Cannot lock Handlers.take with LockInterceptor('stock:<params.id>'): a GraphQL request has no 'params'; begin with args, headers or user, or use a function",
      );
    });

    it('finds a user in a GraphQL context without a request', async () => {
      const take = await handlerOf('graphql', 'stock:<user.id>');
      const events = (await take({}, { live: true }, { user: { id: '42' } }, {})) as AsyncGenerator;
      await events.next();
      expect(await app.get(LockService).tryAcquire('stock:42')).toBeNull();
      await events.return(undefined);
    });

    it('keeps the lock until a subscription has ended', async () => {
      const take = await handlerOf('graphql', 'stock:<args.id>');
      const events = (await take({}, { id: '42', live: true }, {}, {})) as AsyncGenerator<string>;
      expect(await events.next()).toEqual({ done: false, value: 'first' });
      const locks = app.get(LockService);
      expect(await locks.tryAcquire('stock:42')).toBeNull();
      await events.return(undefined);
      expect(await locks.tryAcquire('stock:42')).not.toBeNull();
    });

    it('names the route if a value is missing', async () => {
      const take = await handlerOf('graphql', 'stock:<args.id>');
      const call = take({}, {}, {}, {});
      await expect(call).rejects.toThrow(LockKeyError);
      await expect(call).rejects.toThrow(
        "Cannot build a lock key from 'stock:<args.id>' of Handlers.take: <args.id> is undefined: args has no 'id'; pass an object that has it, or correct the name; for an answer of your own to such a request, use a function that throws",
      );
    });

    const NONE =
      'the request has none; use a function that builds the key from something else; for an answer of your own';
    it.each([
      ['http', 'user', 'no guard has set it; put one that does on the route, such as @UseGuards('],
      ['http', 'body', 'no parser has read one; send it with its Content-Type, or build the key'],
      ['http', 'query', NONE],
      ['graphql', 'user', 'no guard has set it; put one that does on the route'],
      ['graphql', 'headers', 'the GraphQL context has no request; return it there'],
      ['rpc', 'data', NONE],
      ['ws', 'user', 'no guard has set it'],
    ])('says why a request of the kind %s has no %s', async (kind, root, reason) => {
      const take = await handlerOf(kind, `stock:<${root}.id>`);
      const call = kind === 'rpc' ? take(undefined) : take({}, {}, {}, {});
      await expect(call).rejects.toThrow(LockKeyError);
      await expect(call).rejects.toThrow(
        `Cannot build a lock key from 'stock:<${root}.id>' of Handlers.take: <${root}.id> cannot be read, ${root} is undefined: ${reason}`,
      );
    });

    it('names the route if the function returns no key', async () => {
      const take = await handlerOf('graphql', () => undefined as unknown as string);
      await expect(take({}, {}, {}, {})).rejects.toThrow(
        'Cannot build a lock key with the key function of LockInterceptor on Handlers.take: Cannot use undefined as a lock key',
      );
    });

    it('serves an unknown kind of request only with a function', async () => {
      const withTemplate = await handlerOf('telegraf', 'stock:<params.id>');
      await expect(withTemplate({})).rejects.toThrow(
        "Cannot lock Handlers.take with LockInterceptor('stock:<params.id>'): the parts of a 'telegraf' request are unknown; use a function",
      );
      const key = uniqueKey();
      const withFunction = await handlerOf('telegraf', ({ id }: { id: string }) => id);
      await expect(withFunction({ id: key })).resolves.toBe('taken');
    });
  });
});
