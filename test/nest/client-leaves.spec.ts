/** Clients that leave while a LockInterceptor waits for their lock, over real connections. */
import { beforeEach, describe, expect, it } from '@jest/globals';
import { ApolloDriver, type ApolloDriverConfig } from '@nestjs/apollo';
import {
  Body,
  type CallHandler,
  Controller,
  type ExecutionContext,
  Get,
  type INestApplication,
  Logger,
  type MessageEvent,
  type NestInterceptor,
  Param,
  Post,
  Sse,
  UseInterceptors,
} from '@nestjs/common';
import type { AbstractHttpAdapter } from '@nestjs/core';
import { Args, GraphQLModule, ID, Mutation, Query, Resolver } from '@nestjs/graphql';
import { EventPattern, MessagePattern, Payload } from '@nestjs/microservices';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { WsAdapter } from '@nestjs/platform-ws';
import { MessageBody, SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { LockInterceptor } from 'nestjs-locked';
import { LockTestingModule, TestLocks } from 'nestjs-locked/testing';
import { EMPTY, lastValueFrom, type Observable, of, tap } from 'rxjs';
import { WebSocket } from 'ws';
import { once } from 'node:events';
import { request, type ServerResponse } from 'node:http';
import { connect as connectHttp2 } from 'node:http2';
import { connect, type Socket } from 'node:net';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { type Gate, makeGate } from '../support/gate.js';
import { startHttp } from '../support/nest-app.js';
import { RecordingLogger } from '../support/recording-logger.js';
import { connectTcp } from '../support/tcp-client.js';

const CLIENTS = 5;

/** What ran in one test, in order. */
let events: string[];
let mayEnd: Gate;

beforeEach(() => {
  events = [];
  mayEnd = makeGate();
});

const Locks = LockInterceptor('stock', { waitMs: 60_000 });

function ran(name: string): string {
  events.push(name);
  return name;
}

class ObservingInterceptor implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(
      tap({
        next: () => events.push('result'),
        error: (error: Error) => events.push(error.message),
      }),
    );
  }
}

class EarlyAnswer implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    context.switchToHttp().getResponse<ServerResponse>().end('accepted');
    return next.handle();
  }
}

@Controller()
class StockController {
  @Get('get/:name')
  @UseInterceptors(ObservingInterceptor, Locks)
  get(@Param('name') name: string): string {
    return ran(name);
  }

  @Post('post')
  @UseInterceptors(Locks)
  post(@Body('name') name: string): string {
    return ran(name);
  }

  @Get('slow')
  @UseInterceptors(ObservingInterceptor, Locks)
  async slow(): Promise<string> {
    ran('in');
    await mayEnd.opened;
    return ran('out');
  }

  @Get('early')
  @UseInterceptors(EarlyAnswer, Locks)
  early(): Observable<never> {
    ran('early');
    return EMPTY;
  }

  @Sse('sse')
  @UseInterceptors(Locks)
  sse(): Observable<MessageEvent> {
    return of({ data: ran('sse') });
  }

  @MessagePattern('message')
  @UseInterceptors(Locks)
  message(@Payload() name: string): string {
    return ran(name);
  }

  @EventPattern('event')
  @UseInterceptors(Locks)
  event(@Payload() name: string): void {
    ran(name);
  }
}

@Resolver()
class StockResolver {
  @Query(() => Boolean)
  isOpen(): boolean {
    return true;
  }

  @Mutation(() => String)
  @UseInterceptors(Locks)
  take(@Args('id', { type: () => ID }) id: string): string {
    return ran(id);
  }
}

@WebSocketGateway()
class StockGateway {
  @SubscribeMessage('take')
  @UseInterceptors(Locks)
  take(@MessageBody('name') name: string): object {
    return { event: 'taken', data: ran(name) };
  }
}

async function startShop(
  adapter?: AbstractHttpAdapter,
  providers: (typeof StockResolver | typeof StockGateway)[] = [],
  configure?: (app: INestApplication) => unknown,
) {
  const locks = new TestLocks();
  const { app, url } = await startHttp(
    {
      imports: [
        LockTestingModule.forRoot({ locks }),
        ...(providers.includes(StockResolver)
          ? [
              GraphQLModule.forRoot<ApolloDriverConfig>({
                driver: ApolloDriver,
                autoSchemaFile: true,
              }),
            ]
          : []),
      ],
      controllers: [StockController],
      providers,
    },
    configure,
    adapter,
  );
  const log = new RecordingLogger();
  Logger.overrideLogger(log);
  afterTest(() => Logger.overrideLogger(false));
  return { app, url, port: Number(new URL(url).port), locks, log };
}

type Shop = Awaited<ReturnType<typeof startShop>>;

function untilWaiting({ locks }: Shop, count: number): Promise<void> {
  return eventually(() =>
    expect(locks.calls.filter(({ outcome }) => outcome === 'waiting')).toHaveLength(count),
  );
}

/** Requests a route on a connection of its own. @returns a function that leaves */
function get({ url }: Shop, path: string): () => void {
  const asking = request(`${url}/${path}`, { agent: false });
  asking.on('error', () => {}); // left
  asking.end();
  return () => asking.destroy();
}

/** All calls that wait have given up their place, so that nothing runs when the lock is free; and nobody complains. */
async function expectNobodyRuns({ locks, log }: Shop, other: { release(): void }): Promise<void> {
  const waiting = locks.calls.length;
  await eventually(() =>
    expect(locks.calls.map(({ outcome }) => outcome)).toEqual(Array(waiting).fill('aborted')),
  );
  other.release();
  const next = locks.hold('stock'); // after those that waited, if one does
  next.release();
  expect(events.filter((event) => event !== 'The client has left')).toEqual([]);
  for (const context of ['ExceptionsHandler', 'RpcExceptionsHandler', 'nestjs-locked']) {
    expect(log.lines(context)).toEqual([]);
  }
}

async function send(shop: Shop, text: string): Promise<Socket> {
  const socket = connect(shop.port, '127.0.0.1');
  afterTest(() => socket.destroy());
  await once(socket, 'connect');
  socket.write(text);
  return socket;
}

const textOf = (name: string): string => `GET /get/${name} HTTP/1.1\r\nHost: a\r\n\r\n`;

describe.each([
  ['Express', () => new ExpressAdapter()],
  ['Fastify', () => new FastifyAdapter()],
])('on %s', (_, adapter) => {
  it('no handler runs for clients that have left', async () => {
    const shop = await startShop(adapter());
    const other = shop.locks.hold('stock');
    const leave = Array.from({ length: CLIENTS }, (_none, index) => get(shop, `get/${index}`));
    await untilWaiting(shop, CLIENTS);
    for (const one of leave) one();
    await expectNobodyRuns(shop, other);
    expect(events).toEqual(Array(CLIENTS).fill('The client has left'));
    expect(await (await fetch(`${shop.url}/get/next`)).text()).toBe('next');
  });

  it('a client whose body was read stays, although its request is closed', async () => {
    const shop = await startShop(adapter());
    const other = shop.locks.hold('stock');
    const answer = fetch(`${shop.url}/post`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"name":"posted"}',
    });
    await shop.locks.untilWaiting('stock');
    await new Promise((resolve) => setTimeout(resolve, 20));
    other.release();
    expect(await (await answer).text()).toBe('posted');
  });

  it('requests that were sent one after the other on one connection end with it', async () => {
    const shop = await startShop(adapter());
    const other = shop.locks.hold('stock');
    const socket = await send(
      shop,
      Array.from({ length: 15 }, (_none, index) => textOf(`${index}`)).join(''),
    );
    await untilWaiting(shop, 15);
    socket.destroy();
    await expectNobodyRuns(shop, other);
  });

  it('a client that has closed its half of the connection, after which Node does not answer, has left', async () => {
    const shop = await startShop(adapter());
    const other = shop.locks.hold('stock');
    const socket = await send(shop, textOf('half'));
    await shop.locks.untilWaiting('stock');
    socket.end();
    await expectNobodyRuns(shop, other);
  });

  it('a connection that is used again still tells', async () => {
    const shop = await startShop(adapter());
    const socket = await send(shop, textOf('first'));
    await eventually(() => expect(events).toEqual(['first', 'result']));
    events = [];
    const other = shop.locks.hold('stock');
    socket.write(textOf('second'));
    await shop.locks.untilWaiting('stock');
    socket.destroy();
    await eventually(() => expect(shop.locks.calls.at(-1)).toMatchObject({ outcome: 'aborted' }));
    other.release();
    expect(events).toEqual(['The client has left']);
  });

  it('a handler that has begun does not notice', async () => {
    const shop = await startShop(adapter());
    const leave = get(shop, 'slow');
    await shop.locks.untilHeld('stock');
    leave();
    await new Promise((resolve) => setTimeout(resolve, 20));
    mayEnd.open();
    await eventually(() => expect(events).toEqual(['in', 'out', 'result']));
    expect(shop.locks.calls).toMatchObject([{ outcome: 'released' }]);
  });

  it('an event stream ends its wait', async () => {
    const shop = await startShop(adapter());
    const other = shop.locks.hold('stock');
    const leave = get(shop, 'sse');
    await shop.locks.untilWaiting('stock');
    leave();
    await expectNobodyRuns(shop, other);
  });
});

it('a lock that is granted while the client leaves is released', async () => {
  const shop = await startShop();
  for (let turn = 0; turn < 10; turn++) {
    const other = shop.locks.hold('stock');
    const leave = get(shop, `get/${turn}`);
    await shop.locks.untilWaiting('stock');
    if (turn % 2 === 0) leave();
    other.release();
    if (turn % 2 === 1) leave();
    await eventually(() =>
      expect(['aborted', 'released']).toContain(shop.locks.calls[turn]?.outcome),
    );
  }
  shop.locks.hold('stock').release();
});

it('a client that has its answer already may leave: the handler still runs', async () => {
  const shop = await startShop();
  const other = shop.locks.hold('stock');
  const socket = await send(shop, 'GET /early HTTP/1.1\r\nHost: a\r\n\r\n');
  await shop.locks.untilWaiting('stock');
  socket.destroy();
  await once(socket, 'close');
  await new Promise((resolve) => setTimeout(resolve, 20));
  other.release();
  await eventually(() => expect(events).toEqual(['early']));
});

it('over HTTP/2, a stream that is closed has left, and the others of its connection have not', async () => {
  const shop = await startShop(new FastifyAdapter({ http2: true }));
  const other = shop.locks.hold('stock');
  const session = connectHttp2(shop.url);
  afterTest(() => session.close());
  const [leaves, stays] = ['leaves', 'stays'].map((name) =>
    session.request({ ':path': `/get/${name}` }),
  );
  await untilWaiting(shop, 2);
  leaves?.close();
  await eventually(() =>
    expect(shop.locks.calls).toMatchObject([{ outcome: 'aborted' }, { outcome: 'waiting' }]),
  );
  other.release();
  stays?.resume();
  await once(stays as NodeJS.ReadableStream, 'end');
  expect(events).toEqual(['The client has left', 'stays', 'result']);
});

it('a mutation of GraphQL does not run for a client that has left', async () => {
  const shop = await startShop(undefined, [StockResolver]);
  const other = shop.locks.hold('stock');
  const client = new AbortController();
  const answer = fetch(`${shop.url}/graphql`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ query: 'mutation { take(id: "42") }' }),
    signal: client.signal,
  }).catch(() => 'left');
  await shop.locks.untilWaiting('stock');
  client.abort();
  expect(await answer).toBe('left');
  await expectNobodyRuns(shop, other);
});

it('messages over TCP end with their connection, events do not', async () => {
  const shop = await startShop();
  const other = shop.locks.hold('stock');
  const client = await connectTcp(shop.app);
  client.emit('event', 'emitted');
  await shop.locks.untilWaiting('stock');
  const answers = Array.from({ length: 15 }, (_none, index) =>
    lastValueFrom(client.send('message', `${index}`)).catch(() => 'left'),
  );
  await untilWaiting(shop, 16);
  client.close();
  expect(await Promise.all(answers)).toEqual(Array(15).fill('left'));
  await eventually(() =>
    expect(shop.locks.calls.slice(1).map(({ outcome }) => outcome)).toEqual(
      Array(15).fill('aborted'),
    ),
  );
  other.release();
  await eventually(() => expect(events).toEqual(['emitted']));
  expect(shop.log.lines('RpcExceptionsHandler')).toEqual([]);
});

it('a message to a gateway ends with its client', async () => {
  const shop = await startShop(undefined, [StockGateway], (app) =>
    app.useWebSocketAdapter(new WsAdapter(app)),
  );
  const other = shop.locks.hold('stock');
  const socket = new WebSocket(shop.url.replace('http', 'ws'));
  await once(socket, 'open');
  socket.send(JSON.stringify({ event: 'take', data: { name: 'taken' } }));
  await shop.locks.untilWaiting('stock');
  socket.terminate();
  await expectNobodyRuns(shop, other);
});
