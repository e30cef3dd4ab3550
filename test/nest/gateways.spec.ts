/** Locks behind WebSocket gateways, asked by real clients. */
import { describe, expect, it } from '@jest/globals';
import {
  type CanActivate,
  type ExecutionContext,
  type INestApplication,
  Injectable,
  UseFilters,
  UseGuards,
  UseInterceptors,
} from '@nestjs/common';
import { IoAdapter } from '@nestjs/platform-socket.io';
import { WsAdapter } from '@nestjs/platform-ws';
import { MessageBody, SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import {
  Locked,
  LockExceptionFilter,
  LockInterceptor,
  LockService,
  RedisLockModule,
} from 'nestjs-locked';
import { from, map, type Observable, of } from 'rxjs';
import { io } from 'socket.io-client';
import { WebSocket } from 'ws';
import { once } from 'node:events';
import { afterTest } from '../support/after-test.js';
import { whileBusy } from '../support/busy-lock.js';
import { MessageLog } from '../support/message-log.js';
import { startHttp, startNest } from '../support/nest-app.js';
import { startRedisServer } from '../support/own-redis.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const BUSY = { code: 'LOCK_NOT_ACQUIRED', message: 'In use, try again', retryAfterMs: 1_000 };

const redis = useRedis();

@Injectable()
class Stock {
  @Locked('stock:<id>', { waitMs: 20 })
  async take(id: string): Promise<string> {
    return id;
  }

  @Locked('stock:<id>', { waitMs: 20, returns: 'observable' })
  watch(id: string): Observable<string> {
    return of(id);
  }
}

/** Puts the user where guards do: on the client itself, or where Socket.IO keeps what belongs to a client. */
class TokenGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const client = context.switchToWs().getClient<{ data?: object; user?: object }>();
    const user = { id: context.switchToWs().getData<{ token?: string }>().token };
    if (client.data === undefined) client.user = user;
    else Object.assign(client.data, { user });
    return true;
  }
}

@WebSocketGateway()
@UseFilters(LockExceptionFilter)
class StockGateway {
  constructor(private readonly stock: Stock) {}

  @SubscribeMessage('take')
  async take(@MessageBody('id') id: string): Promise<object> {
    return { event: 'taken', data: await this.stock.take(id) };
  }

  @SubscribeMessage('watch')
  watch(@MessageBody('id') id: string): Observable<unknown> {
    return this.stock.watch(id).pipe(map((data) => ({ event: 'watched', data })));
  }

  @SubscribeMessage('list')
  @UseInterceptors(LockInterceptor('stock:<data.id>', { waitMs: 20 }))
  list(@MessageBody('id') id: string): Observable<object> {
    return from([id, 'more'].map((data) => ({ event: 'item', data })));
  }

  @SubscribeMessage('mine')
  @UseGuards(TokenGuard)
  @UseInterceptors(LockInterceptor('user:<user.id>', { waitMs: 20 }))
  mine(): object {
    return { event: 'mine', data: 'sold' };
  }
}

interface Message {
  readonly event: string;
  readonly data: unknown;
}

interface Client {
  send(event: string, data: object): void;
  readonly messages: MessageLog<Message>;
}

async function connectWs(url: string): Promise<Client> {
  const socket = new WebSocket(url.replace('http', 'ws'));
  afterTest(() => socket.terminate());
  const messages = new MessageLog<Message>();
  socket.on('message', (data: Buffer) => messages.add(JSON.parse(data.toString()) as Message));
  await once(socket, 'open');
  return { send: (event, data) => socket.send(JSON.stringify({ event, data })), messages };
}

async function connectSocketIo(url: string): Promise<Client> {
  const socket = io(url, { transports: ['websocket'], reconnection: false });
  afterTest(() => socket.disconnect());
  const messages = new MessageLog<Message>();
  socket.onAny((event: string, data: unknown) => messages.add({ event, data }));
  await new Promise<void>((resolve) => socket.on('connect', resolve));
  return { send: (event, data) => void socket.emit(event, data), messages };
}

describe.each([
  ['ws', (app: INestApplication) => new WsAdapter(app), connectWs],
  ['Socket.IO', (app: INestApplication) => new IoAdapter(app), connectSocketIo],
])('over %s', (_, adapter, connect) => {
  async function startShop(url = redis.url) {
    const { app, url: address } = await startHttp(
      {
        imports: [RedisLockModule.forRoot({ connection: url, leaseMs: 3_000 })],
        providers: [Stock, StockGateway],
      },
      (gateway) => gateway.useWebSocketAdapter(adapter(gateway)),
    );
    const client = await connect(address);
    const ask = (event: string, data: object): Promise<Message> => {
      client.send(event, data);
      return client.messages.next();
    };
    return { locks: app.get(LockService), ask, messages: client.messages };
  }

  it('a busy call gets an `exception`, and the next message succeeds', async () => {
    const { locks, ask } = await startShop();
    const id = uniqueKey();
    await whileBusy(locks, `stock:${id}`, async () => {
      expect(await ask('take', { id })).toEqual({ event: 'exception', data: BUSY });
      expect(await ask('watch', { id })).toEqual({ event: 'exception', data: BUSY });
    });
    expect(await ask('take', { id })).toEqual({ event: 'taken', data: id });
    expect(await ask('watch', { id })).toEqual({ event: 'watched', data: id });
  });

  it('a client learns that Redis does not answer', async () => {
    const server = await startRedisServer();
    const { ask } = await startShop(server.url);
    const id = uniqueKey();
    expect(await ask('take', { id })).toEqual({ event: 'taken', data: id });
    afterTest(() => server.resume());
    server.pause();
    expect(await ask('take', { id })).toMatchObject({
      event: 'exception',
      data: { code: 'LOCK_STORE_FAILED', message: 'Locks are unavailable, try again' },
    });
  });

  it('a LockInterceptor takes the key from the payload, and passes every value on', async () => {
    const { locks, ask, messages } = await startShop();
    const id = uniqueKey();
    await whileBusy(locks, `stock:${id}`, async () => {
      expect(await ask('list', { id })).toEqual({ event: 'exception', data: BUSY });
    });
    expect(await ask('list', { id })).toEqual({ event: 'item', data: id });
    expect(await messages.next()).toEqual({ event: 'item', data: 'more' });
  });

  it('a LockInterceptor takes the key from the user that a guard has set on the client', async () => {
    const { locks, ask } = await startShop();
    const token = uniqueKey();
    await whileBusy(locks, `user:${token}`, async () => {
      expect(await ask('mine', { token })).toEqual({ event: 'exception', data: BUSY });
    });
    expect(await ask('mine', { token })).toEqual({ event: 'mine', data: 'sold' });
  });

  it('a missing value is an internal error that shows nothing of the code', async () => {
    const { ask } = await startShop();
    expect(await ask('list', {})).toEqual({
      event: 'exception',
      data: { code: 'LOCK_KEY_INVALID', message: 'Internal Server Error' },
    });
  });
});

it('the application does not start if gateways have no value for the beginning of the template', async () => {
  @WebSocketGateway()
  class WrongGateway {
    @SubscribeMessage('read')
    @UseInterceptors(LockInterceptor('stock:<params.id>'))
    read(): string {
      return 'stock';
    }
  }
  const start = startNest({
    imports: [RedisLockModule.forRoot({ connection: redis.url })],
    providers: [WrongGateway],
  });
  await expect(start).rejects.toThrow(
    "Cannot lock WrongGateway.read with LockInterceptor('stock:<params.id>'): a message to a gateway has no 'params'; begin with data or user",
  );
});
