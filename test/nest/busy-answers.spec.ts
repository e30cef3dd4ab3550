import { describe, expect, it } from '@jest/globals';
import {
  type CallHandler,
  ConflictException,
  Controller,
  type DynamicModule,
  type ExecutionContext,
  Get,
  Header,
  Injectable,
  type NestInterceptor,
  StreamableFile,
  type Type,
  UseInterceptors,
} from '@nestjs/common';
import { APP_INTERCEPTOR, ExternalContextCreator } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { LockInterceptor, LockService } from 'nestjs-locked';
import { LockTestingModule } from 'nestjs-locked/testing';
import { map, type Observable, of, retry, tap, timeout, timer } from 'rxjs';
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { PassThrough } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { LOCK_RUNNER } from '../../libs/nestjs-locked/src/core/engine/lock-runner.js';
import type { LockKeys, WithLockOptions } from '../../libs/nestjs-locked/src/core/lock.options.js';
import { whileBusy } from '../support/busy-lock.js';
import { eventually } from '../support/eventually.js';
import { type HttpApp, startHttp, startNest } from '../support/nest-app.js';
import { RecordingLockModule } from './recording-locks.js';

interface NodeResponse {
  flushHeaders(): void;
}

interface Response extends NodeResponse {
  header(name: string, value: string): unknown;
  readonly raw?: NodeResponse;
}

let response: Response;
let file: PassThrough;
let failures: unknown[] = [];
let tries = 0;

/** Shows a route its response, as a library does that keeps it in the async context. */
class WithResponse implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    response = context.switchToHttp().getResponse();
    return next.handle();
  }
}

/** Answers with a slow file if the route takes too long. */
class Impatient implements NestInterceptor {
  intercept(_: ExecutionContext, next: CallHandler): Observable<unknown> {
    const instead = (): Observable<unknown> => {
      response.header('Content-Language', 'en');
      return of(new StreamableFile((file = new PassThrough())));
    };
    return next.handle().pipe(timeout({ first: 50, with: instead }));
  }
}

/** Tries again and again, and sets its own headers meanwhile: one each time, the other one once. */
class Persistent implements NestInterceptor {
  intercept(_: ExecutionContext, next: CallHandler): Observable<unknown> {
    const delay = (_error: unknown, times: number): Observable<unknown> => {
      response.header('Content-Location', `/${(tries = times)}`);
      if (times === 1) response.header('Cache-Control', 'private');
      return timer(20);
    };
    return next.handle().pipe(retry({ delay }));
  }
}

/** Begins to answer before it calls the route, and sees whether that fails. */
class Hasty implements NestInterceptor {
  intercept(_: ExecutionContext, next: CallHandler): Observable<unknown> {
    (response.raw ?? response).flushHeaders();
    return next.handle().pipe(tap({ error: (error: unknown) => failures.push(error) }));
  }
}

@Controller()
@UseInterceptors(WithResponse)
class RouteController {
  @Get('own')
  @Header('Content-Language', 'de')
  @UseInterceptors(
    LockInterceptor('key', {
      waitMs: 0,
      onBusy: () => {
        response.header('Refresh', '5');
        response.header('Cache-Control', 'private, max-age=2');
        return 'busy';
      },
    }),
  )
  own(): string {
    return 'run';
  }

  @Get('thrown')
  @Header('Content-Language', 'de')
  @Header('Cache-Control', 'public, max-age=3600')
  @UseInterceptors(
    LockInterceptor('key', {
      waitMs: 0,
      onBusy: () => {
        throw new ConflictException();
      },
    }),
  )
  thrown(): string {
    return 'run';
  }

  @Get('late')
  @UseInterceptors(
    Impatient,
    LockInterceptor('key', {
      waitMs: 0,
      onBusy: async () => {
        await sleep(200);
        setTimeout(() => file.end('file'), 100);
        return 'busy';
      },
    }),
  )
  late(): string {
    return 'run';
  }

  @Get('retried')
  @Header('Content-Language', 'de')
  @UseInterceptors(
    Persistent,
    LockInterceptor('key', {
      waitMs: 0,
      onBusy: () => {
        response.header('Refresh', '5');
        throw new ConflictException();
      },
    }),
  )
  retried(): string {
    return 'run';
  }

  @Get('hasty')
  @UseInterceptors(Hasty, LockInterceptor('key', { waitMs: 0, onBusy: 'skip' }))
  hasty(): string {
    return 'run';
  }
}

describe.each([
  ['Express', undefined],
  ['Fastify', (): FastifyAdapter => new FastifyAdapter()],
])('what a busy route under a LockInterceptor answers on %s', (_, adapter) => {
  const names = ['content-language', 'refresh', 'cache-control', 'content-location'];

  const start = async (locks: DynamicModule): Promise<HttpApp> => {
    const root = { imports: [locks], controllers: [RouteController] };
    return startHttp(root, undefined, adapter?.());
  };

  const read = async (url: string): Promise<unknown[]> => {
    const answer = await fetch(url, { signal: AbortSignal.timeout(10_000) });
    const body = await answer.text();
    return [answer.status, body, ...names.map((name) => answer.headers.get(name))];
  };

  const readBusy = async (path: string): Promise<unknown[]> => {
    const { app, url } = await start(LockTestingModule.forRoot());
    return whileBusy(app.get(LockService), 'key', () => read(`${url}/${path}`));
  };

  it('has the headers that its onBusy sets', async () => {
    expect(await readBusy('own')).toEqual([200, 'busy', null, '5', 'private, max-age=2', null]);
  });

  it('has no headers of the handler if its onBusy throws', async () => {
    const [status, , ...headers] = await readBusy('thrown');
    expect([status, ...headers]).toEqual([409, null, null, 'no-store', null]);
  });

  it('is not changed if another interceptor has answered before its onBusy did', async () => {
    expect(await readBusy('late')).toEqual([200, 'file', 'en', null, 'no-store', null]);
  });

  it('is not changed if another interceptor has answered before its onBusy was called', async () => {
    const lookUpSlowly = async (_: LockKeys, { onBusy }: WithLockOptions): Promise<unknown> => {
      await sleep(200);
      return (onBusy as () => unknown)();
    };
    const locks = RecordingLockModule.with({ [LOCK_RUNNER]: { withLock: lookUpSlowly } });
    const { url } = await start(locks);
    expect(await read(`${url}/late`)).toEqual([200, 'file', 'en', null, null, null]);
  });

  it('has the headers of the handler again if another interceptor tries until the handler runs', async () => {
    const { app, url } = await start(LockTestingModule.forRoot());
    const lock = await app.get(LockService).acquire('key');
    tries = 0;
    const answer = read(`${url}/retried`);
    await eventually(() => expect(tries).toBeGreaterThan(2));
    await lock.release();
    expect(await answer).toEqual([200, 'run', 'de', '5', 'private', `/${tries}`]);
  });

  it('is not changed if it has begun before', async () => {
    failures = [];
    const [status] = await readBusy('hasty');
    expect([status, failures]).toEqual([200, []]);
  });
});

describe('a function that Nest calls like a route', () => {
  @Injectable()
  class Handlers {
    take(): string {
      return 'taken';
    }

    async *list(): AsyncGenerator<string> {
      yield 'first';
    }
  }

  /** Returns something other than the handler. */
  class Instead implements NestInterceptor {
    intercept(_: ExecutionContext, next: CallHandler): Observable<unknown> {
      return next.handle().pipe(map(() => 'instead'));
    }
  }

  type Call = (...args: unknown[]) => Promise<unknown>;

  async function startHandlers(...around: Type<NestInterceptor>[]) {
    const Locking = LockInterceptor(() => 'key', { waitMs: 0, onBusy: () => 'busy' });
    const interceptors = [...around, Locking].map((useClass) => ({
      provide: APP_INTERCEPTOR,
      useClass,
    }));
    const app = await startNest({
      imports: [LockTestingModule.forRoot()],
      providers: [Handlers, ...interceptors],
    });
    const handlers = app.get(Handlers);
    const callOf = (name: 'take' | 'list'): Call => {
      const method = handlers[name].bind(handlers);
      return app.get(ExternalContextCreator).create(handlers, method, name) as Call;
    };
    return { locks: app.get(LockService), callOf };
  }

  it('returns the result of its onBusy, whatever its second argument is', async () => {
    const { locks, callOf } = await startHandlers();
    const take = callOf('take');
    const unreadable = {
      get getHeaders() {
        throw new Error('not to be read');
      },
    };
    const others = [undefined, null, 'text', { header: 'a value' }, { header() {} }, unreadable];
    const asked = await whileBusy(locks, 'key', () =>
      Promise.all(others.map((other) => take({}, other))),
    );
    expect(asked).toEqual(others.map(() => 'busy'));
    expect(await take({}, unreadable)).toBe('taken');
  });

  it('releases its lock when a response of Node has ended, if nobody reads its result', async () => {
    const { locks, callOf } = await startHandlers(Instead);
    const message = new ServerResponse(new IncomingMessage(new Socket()));
    expect(await callOf('list')({}, message)).toBe('instead');
    expect(await locks.tryAcquire('key')).toBeNull();
    message.emit('close');
    await eventually(async () => {
      await using lock = await locks.tryAcquire('key');
      expect(lock?.isHeld).toBe(true);
    });
  });
});
