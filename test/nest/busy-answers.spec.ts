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
  UseInterceptors,
} from '@nestjs/common';
import { APP_INTERCEPTOR, ExternalContextCreator } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { LockInterceptor, LockService } from 'nestjs-locked';
import { LockTestingModule } from 'nestjs-locked/testing';
import { type Observable, of, tap, timeout } from 'rxjs';
import { PassThrough } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { LOCK_RUNNER } from '../../libs/nestjs-locked/src/core/engine/lock-runner.js';
import type { Keys, WithLockOptions } from '../../libs/nestjs-locked/src/core/lock.options.js';
import { whileBusy } from '../support/busy-lock.js';
import { type HttpApp, startHttp, startNest } from '../support/nest-app.js';
import { RecordingLockModule } from './recording-locks.js';

interface NodeResponse {
  flushHeaders(): void;
}

interface Response extends NodeResponse {
  header(name: string, value: string): unknown;
  readonly raw?: NodeResponse;
}

const responseOf = (context: ExecutionContext): Response => context.switchToHttp().getResponse();

let response: Response;
let file: PassThrough;
let failures: unknown[] = [];

/** Shows a route its response, as a library does that keeps it in the async context. */
class WithResponse implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    response = responseOf(context);
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

/** Has begun to answer before the route is asked, and sees whether that fails. */
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
  const names = ['content-language', 'refresh', 'cache-control'];

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
    expect(await readBusy('own')).toEqual([200, 'busy', null, '5', 'private, max-age=2']);
  });

  it('has none of the handler if its onBusy throws', async () => {
    const [status, , ...headers] = await readBusy('thrown');
    expect([status, ...headers]).toEqual([409, null, null, 'no-store']);
  });

  it('is left alone if another interceptor has answered before its onBusy did', async () => {
    expect(await readBusy('late')).toEqual([200, 'file', 'en', null, 'no-store']);
  });

  it('is left alone if another interceptor has answered before its onBusy was asked', async () => {
    const lookUpSlowly = async (_: Keys, { onBusy }: WithLockOptions): Promise<unknown> => {
      await sleep(200);
      return (onBusy as () => unknown)();
    };
    const locks = RecordingLockModule.with({ [LOCK_RUNNER]: { withLock: lookUpSlowly } });
    const { url } = await start(locks);
    expect(await read(`${url}/late`)).toEqual([200, 'file', 'en', null, null]);
  });

  it('is left alone if it has begun before', async () => {
    failures = [];
    const [status] = await readBusy('hasty');
    expect([status, failures]).toEqual([200, []]);
  });
});

it('A busy function that Nest calls like a route, without a response, answers what its onBusy gives', async () => {
  @Injectable()
  class Handlers {
    take(): string {
      return 'taken';
    }
  }
  const BusyInterceptor = LockInterceptor(() => 'key', { waitMs: 0, onBusy: () => 'busy' });
  const app = await startNest({
    imports: [LockTestingModule.forRoot()],
    providers: [Handlers, { provide: APP_INTERCEPTOR, useClass: BusyInterceptor }],
  });
  const handlers = app.get(Handlers);
  const method = handlers.take.bind(handlers);
  const take = app.get(ExternalContextCreator).create(handlers, method, 'take') as (
    ...args: unknown[]
  ) => Promise<unknown>;
  const asked = await whileBusy(app.get(LockService), 'key', () =>
    Promise.all([take(), take({}, { header: 'a value' }), take({}, null)]),
  );
  expect([...asked, await take()]).toEqual(['busy', 'busy', 'busy', 'taken']);
});
