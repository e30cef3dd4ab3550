/** Results of handlers under a LockInterceptor that nobody reads, over real connections. */
import { expect, it } from '@jest/globals';
import {
  type CallHandler,
  Controller,
  type ExecutionContext,
  Get,
  Param,
  UseInterceptors,
} from '@nestjs/common';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { LockInterceptor, LockService, RedisLockModule } from 'nestjs-locked';
import { map, mergeMap, type Observable } from 'rxjs';
import { eventually } from '../support/eventually.js';
import { type Gate, makeGate } from '../support/gate.js';
import { startHttp } from '../support/nest-app.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const redis = useRedis();

class Fails {
  intercept(_: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(
      map(() => {
        throw new Error('on purpose');
      }),
    );
  }
}

class Replaces {
  intercept(_: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(map(() => 'nothing new'));
  }
}

let isReading: Gate;
let mayEnd: Gate;
let wasRead: unknown;

/** Reads the whole result, whether or not the client is still there. */
class Collects {
  intercept(_: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(
      mergeMap(async (rows: AsyncIterable<unknown>) => {
        const all: unknown[] = [];
        if ('toArray' in rows) {
          isReading.open();
          return (wasRead = await (rows as Cursor).toArray());
        }
        for await (const row of rows) {
          all.push(row);
          isReading.open();
        }
        wasRead = all;
        return all;
      }),
    );
  }
}

let opened: AsyncIterator<unknown>[];
let source: AsyncIterable<unknown>;

/** Answers with something else, and reads on: one of two iterations has begun. */
class Keeps {
  intercept(_: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(
      mergeMap(async (rows: AsyncIterable<unknown>) => {
        source = rows;
        opened = [rows[Symbol.asyncIterator](), rows[Symbol.asyncIterator]()];
        await opened[0]!.next();
        return 'something else';
      }),
    );
  }
}

/** Answers with something else, and has opened an iteration that it does not read. */
class Opens {
  intercept(_: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(
      map((rows: AsyncIterable<unknown>) => {
        source = rows;
        opened = [rows[Symbol.asyncIterator]()];
        return 'something else';
      }),
    );
  }
}

let isReleased: boolean;

interface Cursor extends AsyncIterable<unknown> {
  toArray(): Promise<unknown[]>;
}

async function* rows(): AsyncGenerator<string> {
  yield 'first';
  await mayEnd.opened;
  yield 'last';
}

const RESULTS: Record<string, () => unknown> = {
  web: () =>
    new ReadableStream({
      pull: (controller) => controller.enqueue('row'),
      cancel: () => void (isReleased = true),
    }),
  generator() {
    const source = rows();
    const leave = source.return.bind(source);
    source.return = async (value) => ((isReleased = true), leave(value));
    return source;
  },
  collection: () => ({
    [Symbol.asyncIterator]: rows,
    toArray: async () => (await mayEnd.opened, ['first', 'last']),
  }),
  parts: () => ({ [Symbol.asyncIterator]: () => RESULTS.generator!() }),
  cursor: () => ({ destroy: () => (isReleased = true), [Symbol.asyncIterator]: rows }),
};

const Locks = LockInterceptor('rows:<params.id>');

@Controller(':kind')
class RowsController {
  @Get('fails/:id')
  @UseInterceptors(Fails, Locks)
  async fails(@Param('kind') kind: string): Promise<unknown> {
    return Promise.resolve(RESULTS[kind]!());
  }

  @Get('replaces/:id')
  @UseInterceptors(Replaces, Locks)
  async replaces(@Param('kind') kind: string): Promise<unknown> {
    return Promise.resolve(RESULTS[kind]!());
  }

  @Get('keeps/:id')
  @UseInterceptors(Keeps, Locks)
  async keeps(@Param('kind') kind: string): Promise<unknown> {
    return Promise.resolve(RESULTS[kind]!());
  }

  @Get('opens/:id')
  @UseInterceptors(Opens, Locks)
  async opens(@Param('kind') kind: string): Promise<unknown> {
    return Promise.resolve(RESULTS[kind]!());
  }

  @Get('plain/:id')
  @UseInterceptors(Locks)
  async plain(@Param('kind') kind: string): Promise<unknown> {
    return Promise.resolve(RESULTS[kind]!());
  }

  @Get('collects/:id')
  @UseInterceptors(Collects, Locks)
  async collects(@Param('kind') kind: string): Promise<unknown> {
    return Promise.resolve(RESULTS[kind]!());
  }
}

const ADAPTERS = { Express: () => new ExpressAdapter(), Fastify: () => new FastifyAdapter() };

async function start(adapter: keyof typeof ADAPTERS) {
  [isReading, mayEnd, isReleased, wasRead] = [makeGate(), makeGate(), false, undefined];
  const imports = [RedisLockModule.forRoot({ connection: redis.url })];
  const root = { imports, controllers: [RowsController] };
  const { app, url } = await startHttp(root, undefined, ADAPTERS[adapter]());
  return { locks: app.get(LockService), url, id: uniqueKey() };
}

const CASES = (['Express', 'Fastify'] as const).flatMap((adapter) =>
  ['web', 'generator', 'cursor'].flatMap((kind) =>
    [
      ['fails', 500],
      ['replaces', 200],
    ].map(([outer, status]) => [adapter, kind, outer, status] as const),
  ),
);

it.each(CASES)(
  'on %s, a %s is closed when an outer interceptor %s',
  async (adapter, kind, outer, status) => {
    const { locks, url, id } = await start(adapter);
    expect((await fetch(`${url}/${kind}/${outer}/${id}`)).status).toBe(status);
    await locks.withLock(`rows:${id}`, { waitMs: 15_000 }, () => {});
    await eventually(() => expect(isReleased).toBe(true));
  },
);

it.each([
  ['Express', 'cursor'],
  ['Fastify', 'generator'],
  ['Express', 'collection'],
] as const)(
  'on %s, an interceptor reads a %s to its end under the lock, although the client has left',
  async (adapter, kind) => {
    const { locks, url, id } = await start(adapter);
    const client = new AbortController();
    const { signal } = client;
    const answer = fetch(`${url}/${kind}/collects/${id}`, { signal }).catch(() => 'left');
    await isReading.opened;
    client.abort();
    expect(await answer).toBe('left');
    await new Promise((resolve) => setTimeout(resolve, 300)); // long enough for a wrong release
    expect(await locks.tryAcquire(`rows:${id}`)).toBeNull();
    mayEnd.open();
    await eventually(() => expect(wasRead).toEqual(['first', 'last']));
    if (kind !== 'collection') await locks.withLock(`rows:${id}`, { waitMs: 15_000 }, () => {});
  },
);

it.each(['Express', 'Fastify'] as const)(
  'on %s, an iteration that was opened but not read does not disturb the one that is read',
  async (adapter) => {
    const { locks, url, id } = await start(adapter);
    mayEnd.open();
    await fetch(`${url}/parts/keeps/${id}`);
    await eventually(() => expect(isReleased).toBe(true)); // the other one was left
    await expect(opened[1]!.next()).rejects.toThrow(/request ended before it was read$/);
    const late = source[Symbol.asyncIterator]();
    expect(await late.next()).toEqual({ value: 'first', done: false });
    expect(await opened[0]!.next()).toEqual({ value: 'last', done: false });
    await opened[0]!.return?.();
    expect(await locks.tryAcquire(`rows:${id}`)).toBeNull();
    await late.return?.();
    await locks.withLock(`rows:${id}`, { waitMs: 15_000 }, () => {});
    expect(() => source[Symbol.asyncIterator]()).toThrow(/ again: its lock was/);
  },
);

it('an iteration that was not begun before the end of the request fails with that reason', async () => {
  const { locks, url, id } = await start('Express');
  await fetch(`${url}/parts/opens/${id}`);
  await locks.withLock(`rows:${id}`, { waitMs: 15_000 }, () => {});
  const late = (): unknown => source[Symbol.asyncIterator]();
  expect(late).toThrow(/its request ended before it was read, and its lock was released then$/);
  await expect(opened[0]!.next()).rejects.toThrow(
    /before it was read, and its lock was released then$/,
  );
});

it.each(['Express', 'Fastify'] as const)(
  'on %s, sending a result causes no warning of too many listeners',
  async (adapter) => {
    const warnings: Error[] = [];
    const onWarning = (warning: Error): unknown => warnings.push(warning);
    process.on('warning', onWarning);
    const { url, id } = await start(adapter);
    mayEnd.open();
    await (await fetch(`${url}/cursor/plain/${id}`)).text();
    await new Promise(setImmediate); // Node warns in a later tick
    process.off('warning', onWarning);
    expect(warnings).toEqual([]);
  },
);
