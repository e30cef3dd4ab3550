/** Handlers under a LockInterceptor whose caller leaves, over real connections. */
import { describe, expect, it } from '@jest/globals';
import {
  type CallHandler,
  Controller,
  createParamDecorator,
  type ExecutionContext,
  type INestApplication,
  type MessageEvent,
  type NestInterceptor,
  Param,
  type PipeTransform,
  type Provider,
  Req,
  Scope,
  Sse,
  UseInterceptors,
  UsePipes,
  ValidationPipe,
} from '@nestjs/common';
import { APP_PIPE } from '@nestjs/core';
import { MessagePattern } from '@nestjs/microservices';
import { IoAdapter } from '@nestjs/platform-socket.io';
import { WsAdapter } from '@nestjs/platform-ws';
import {
  MessageBody,
  type OnGatewayDisconnect,
  SubscribeMessage,
  WebSocketGateway,
} from '@nestjs/websockets';
import { LockInterceptor, LockService, RedisLockModule } from 'nestjs-locked';
import { lastValueFrom, NEVER, Observable, of, startWith, Subject, takeUntil, toArray } from 'rxjs';
import { io } from 'socket.io-client';
import { WebSocket } from 'ws';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { type Gate, makeGate } from '../support/gate.js';
import { startHttp } from '../support/nest-app.js';
import { useRedis } from '../support/shared-redis.js';
import { connectTcp } from '../support/tcp-client.js';
import { uniqueKey } from '../support/unique-key.js';

/** How long the test waits for a release that must not come. */
const SOME_MS = 500;

const redis = useRedis();

/** What happens in the handlers of one test, in order. */
let events: string[];
let mayEnd: Gate;
let theLocks: LockService | undefined;

async function work(fails?: string): Promise<void> {
  events.push('in');
  await mayEnd.opened;
  events.push('out');
  if (fails !== undefined) throw new Error('sold out');
}

const Locks = LockInterceptor('stock:<data.id>', { waitMs: 30_000 });

/** Awaits the handler, and then its COMMIT. */
class TransactionInterceptor implements NestInterceptor {
  async intercept(_context: ExecutionContext, next: CallHandler): Promise<Observable<unknown>> {
    const result: unknown = await lastValueFrom(next.handle());
    await mayEnd.opened;
    events.push('committed');
    return of(result);
  }
}

/** Awaits something. */
class WaitingPipe implements PipeTransform {
  async transform(value: unknown): Promise<unknown> {
    events.push('pipe');
    await mayEnd.opened;
    return value;
  }
}

/** Looks something up, as a decorator for the user may. */
const Waiting = createParamDecorator(async () => {
  events.push('pipe');
  await mayEnd.opened;
});

/** Whether the lock of its request is held when a handler begins. */
function begin(): Observable<unknown> {
  events.push(theLocks?.current()?.isHeld === true ? 'in' : 'in without the lock');
  return of({ event: 'taken', data: 1 });
}

@WebSocketGateway()
class StockGateway implements OnGatewayDisconnect {
  handleDisconnect(): void {
    events.push('left');
  }

  @SubscribeMessage('take')
  @UseInterceptors(Locks)
  async take(@MessageBody('fails') fails?: string): Promise<object> {
    await work(fails);
    return { event: 'taken', data: 1 };
  }

  @SubscribeMessage('short')
  @UseInterceptors(LockInterceptor('stock:<data.id>', { maxHoldMs: 1_000 }))
  async short(): Promise<void> {
    await work();
  }

  @SubscribeMessage('quiet')
  @UseInterceptors(Locks)
  quiet(@MessageBody('id') _id: string): Observable<unknown> {
    events.push('in');
    return NEVER;
  }

  @SubscribeMessage('decorated')
  @UseInterceptors(Locks)
  decorated(@Waiting() _value: string): Observable<unknown> {
    return begin();
  }

  @SubscribeMessage('piped-by-all')
  @UseInterceptors(Locks)
  pipedByAll(@MessageBody('id') _id: string): Observable<unknown> {
    return begin();
  }

  @SubscribeMessage('piped')
  @UseInterceptors(Locks)
  piped(@MessageBody('id', WaitingPipe) _id: string): Observable<unknown> {
    return begin();
  }

  @SubscribeMessage('piped-method')
  @UseInterceptors(Locks)
  @UsePipes(new WaitingPipe())
  pipedMethod(@MessageBody('id') _id: string): Observable<unknown> {
    return begin();
  }

  @SubscribeMessage('committed')
  @UseInterceptors(Locks, TransactionInterceptor)
  committed(): Observable<unknown> {
    events.push('in');
    return of({ event: 'taken', data: 1 });
  }

  @SubscribeMessage('committed-twice')
  @UseInterceptors(Locks, TransactionInterceptor, Locks)
  committedTwice(): Observable<unknown> {
    events.push('in');
    return of({ event: 'taken', data: 1 });
  }

  @SubscribeMessage('undeclared')
  @UseInterceptors(Locks)
  undeclared() {
    return NEVER.pipe(startWith({ event: 'taken', data: 1 }));
  }
}

const timeIsUp = new Subject<void>();

class TimeoutInterceptor implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(takeUntil(timeIsUp));
  }
}

@Controller()
class StockController {
  @MessagePattern('take')
  @UseInterceptors(TimeoutInterceptor, Locks)
  async take(): Promise<string> {
    await work();
    return 'taken';
  }

  @MessagePattern('commit')
  @UseInterceptors(TimeoutInterceptor, Locks, TransactionInterceptor)
  commit(): Observable<string> {
    events.push('in');
    return of('taken');
  }

  @Sse('committed/:id')
  @UseInterceptors(LockInterceptor('stock:<params.id>'), TransactionInterceptor)
  committed(@Param('id') id: string, @Req() request: IncomingMessage): Observable<MessageEvent> {
    request.on('close', () => events.push('left'));
    events.push('in');
    return of({ data: id });
  }

  @Sse('piped/:id')
  @UseInterceptors(LockInterceptor('stock:<params.id>'))
  piped(@Param('id') _id: string): Observable<unknown> {
    return begin();
  }

  @Sse('stock/:id')
  @UseInterceptors(LockInterceptor('stock:<params.id>'))
  async events(
    @Param('id') id: string,
    @Req() request: IncomingMessage,
  ): Promise<Observable<MessageEvent>> {
    request.on('close', () => events.push('left'));
    await work();
    return of({ data: id });
  }
}

async function startShop(
  configure?: (app: INestApplication) => unknown,
  pipes: PipeTransform[] = [],
  providers: Provider[] = [],
) {
  events = [];
  mayEnd = makeGate();
  const { app, url } = await startHttp(
    {
      imports: [RedisLockModule.forRoot({ connection: redis.url, leaseMs: 3_000 })],
      controllers: [StockController],
      providers: [
        StockGateway,
        ...pipes.map((pipe) => ({ provide: APP_PIPE, useValue: pipe })),
        ...providers,
      ],
    },
    configure,
  );
  afterTest(() => mayEnd.open()); // or closing would wait for the handler
  const locks = app.get(LockService);
  theLocks = locks;
  const id = uniqueKey();
  const key = `stock:${id}`;
  return { app, url, locks, id, key };
}

const seen = (expected: string[]) => eventually(() => expect(events).toEqual(expected));

/** The lock stays where it is until the handler ends, and no longer. */
async function expectKeptByWork(locks: LockService, key: string): Promise<void> {
  await expect(locks.acquire(key, { waitMs: SOME_MS })).rejects.toMatchObject({
    code: 'LOCK_NOT_ACQUIRED',
  });
  mayEnd.open();
  await locks.withLock(key, () => events.push('next'));
}

interface Client {
  send(event: string, data: object): void;
  leave(): void;
  readonly answered: Promise<unknown>;
}

async function connectWs(url: string): Promise<Client> {
  const socket = new WebSocket(url.replace('http', 'ws'));
  afterTest(() => socket.terminate());
  await once(socket, 'open');
  return {
    send: (event, data) => socket.send(JSON.stringify({ event, data })),
    leave: () => socket.terminate(),
    answered: new Promise((resolve) => socket.on('message', resolve)),
  };
}

async function connectSocketIo(url: string): Promise<Client> {
  const socket = io(url, { transports: ['websocket'], reconnection: false, forceNew: true });
  const leave = (): void => void socket.disconnect();
  afterTest(leave);
  await new Promise<void>((resolve) => socket.on('connect', resolve));
  return {
    send: (event, data) => void socket.emit(event, data),
    leave,
    answered: new Promise((resolve) => socket.onAny(resolve)),
  };
}

describe.each([
  ['ws', (app: INestApplication) => new WsAdapter(app), connectWs],
  ['Socket.IO', (app: INestApplication) => new IoAdapter(app), connectSocketIo],
])('when a client of %s leaves', (_, adapter, connect) => {
  async function startGateway(...pipes: PipeTransform[]) {
    const shop = await startShop((app) => app.useWebSocketAdapter(adapter(app)), pipes);
    return { ...shop, client: await connect(shop.url) };
  }

  it('nobody else enters before its handler has ended', async () => {
    const { url, locks, id, key, client } = await startGateway();
    client.send('take', { id });
    await seen(['in']);
    client.leave();
    await seen(['in', 'left']);
    const second = await connect(url);
    second.send('take', { id });
    await expect(locks.acquire(key, { waitMs: SOME_MS })).rejects.toMatchObject({
      code: 'LOCK_NOT_ACQUIRED',
    });
    expect(events).toEqual(['in', 'left']);
    mayEnd.open();
    await second.answered;
    expect(events).toEqual(['in', 'left', 'out', 'in', 'out']);
  });

  it('a handler that fails later releases the lock, and its error need not be handled', async () => {
    const { locks, id, key, client } = await startGateway();
    client.send('take', { id, fails: 'yes' });
    await seen(['in']);
    client.leave();
    await seen(['in', 'left']);
    await expectKeptByWork(locks, key);
    expect(events).toEqual(['in', 'left', 'out', 'next']);
  });

  it('`maxHoldMs` still ends the hold of its handler', async () => {
    const { locks, id, key, client } = await startGateway();
    client.send('short', { id });
    await seen(['in']);
    client.leave();
    await locks.withLock(key, { waitMs: 30_000 }, () => events.push('next'));
    expect(events).not.toContain('out');
  });

  it('an Observable is unsubscribed at once if it is declared, although it has not emitted', async () => {
    const { locks, id, key, client } = await startGateway(new ValidationPipe());
    client.send('quiet', { id });
    await seen(['in']);
    expect(await locks.tryAcquire(key)).toBeNull();
    client.leave();
    await locks.withLock(key, { waitMs: 30_000 }, () => {});
  });

  it.each([
    ['a parameter', 'piped', []],
    ['the method', 'piped-method', []],
    ['the application', 'piped-by-all', [new WaitingPipe()]],
    ['nobody, but a parameter decorator', 'decorated', []],
  ])('a handler that a pipe of %s keeps waiting runs under its lock', async (_of, event, pipes) => {
    const { locks, id, key, client } = await startGateway(...pipes);
    client.send(event, { id });
    await seen(['pipe']);
    client.leave();
    await seen(['pipe', 'left']);
    await expectKeptByWork(locks, key);
    expect(events).toEqual(['pipe', 'left', 'in', 'next']);
  });

  it.each([
    ['inside', 'committed'],
    ['between two LockInterceptors', 'committed-twice'],
  ])(
    'an Observable that an interceptor %s awaits keeps the lock until it has ended',
    async (_, event) => {
      const { locks, id, key, client } = await startGateway();
      client.send(event, { id });
      await seen(['in']);
      client.leave();
      await seen(['in', 'left']);
      await expectKeptByWork(locks, key);
      expect(events).toEqual(['in', 'left', 'committed', 'next']);
    },
  );

  it('an Observable is unsubscribed at once if it has emitted, although it is not declared', async () => {
    const { locks, id, key, client } = await startGateway();
    client.send('undeclared', { id });
    await client.answered;
    expect(await locks.tryAcquire(key)).toBeNull();
    client.leave();
    await locks.withLock(key, { waitMs: 30_000 }, () => {});
  });
});

it.each([
  ['a handler', 'take', 'out'],
  ['an interceptor inside', 'commit', 'committed'],
])('%s of messages keeps its lock after a timeout around it', async (_, pattern, end) => {
  const { app, locks, id, key } = await startShop();
  const client = await connectTcp(app);
  await client.connect();
  const answer = lastValueFrom(client.send(pattern, { id }).pipe(toArray()));
  await seen(['in']);
  timeIsUp.next();
  expect(await answer).toEqual([]);
  await expectKeptByWork(locks, key);
  expect(events).toEqual(['in', end, 'next']);
});

it.each([
  ['preparation', 'stock', 'out'],
  ['transaction', 'committed', 'committed'],
])(
  'an event stream whose client leaves in its %s keeps the lock until then',
  async (_, path, end) => {
    const { url, locks, id, key } = await startShop();
    const client = new AbortController();
    const response = fetch(`${url}/${path}/${id}`, { signal: client.signal });
    const left = response.then(async (answer) => answer.text()).catch(() => 'aborted');
    await seen(['in']);
    client.abort();
    expect(await left).toBe('aborted');
    await seen(['in', 'left']);
    await expectKeptByWork(locks, key);
    expect(events).toEqual(['in', 'left', end, 'next']);
  },
);

it('an event stream whose client leaves while a pipe of the request works runs under its lock', async () => {
  const pipe = { provide: APP_PIPE, useClass: WaitingPipe, scope: Scope.REQUEST };
  const { url, locks, id, key } = await startShop(undefined, [], [pipe]);
  const client = new AbortController();
  const response = fetch(`${url}/piped/${id}`, { signal: client.signal });
  const left = response.then(async (answer) => answer.text()).catch(() => 'aborted');
  await seen(['pipe']);
  client.abort();
  expect(await left).toBe('aborted');
  await expectKeptByWork(locks, key);
  expect(events).toEqual(['pipe', 'in', 'next']);
});
