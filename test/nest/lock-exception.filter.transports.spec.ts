/** What clients that do not speak HTTP are told, over real connections. */
import { describe, expect, it } from '@jest/globals';
import { Controller, Injectable, type Provider, UseFilters } from '@nestjs/common';
import { APP_FILTER, ExternalContextCreator, NestFactory } from '@nestjs/core';
import {
  type ClientProxy,
  ClientProxyFactory,
  EventPattern,
  MessagePattern,
  Payload,
  Transport,
} from '@nestjs/microservices';
import { WsAdapter } from '@nestjs/platform-ws';
import { MessageBody, SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { Locked, LockExceptionFilter, LockService, RedisLockModule } from 'nestjs-locked';
import { firstValueFrom, type Observable, of, timeout } from 'rxjs';
import { WebSocket } from 'ws';
import { EventEmitter, once } from 'node:events';
import type { Server } from 'node:net';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { MessageLog } from '../support/message-log.js';
import { startHttp, startNest } from '../support/nest-app.js';
import { startRedisServer } from '../support/own-redis.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const BUSY = { code: 'LOCK_NOT_ACQUIRED', message: 'In use, try again', retryAfterMs: 1_000 };
const UNAVAILABLE = {
  code: 'LOCK_STORE_FAILED',
  message: 'Locks are unavailable, try again',
  retryAfterMs: 7_000,
};
/** A call that is not answered must fail the test, not wait for ever. */
const ANSWER_LIMIT_MS = 10_000;

const redis = useRedis();

@Injectable()
class Stock {
  @Locked('stock:<id>', { waitMs: 20 })
  async take(id: string): Promise<string> {
    return id;
  }

  @Locked('stock:<id>', { waitMs: 20 })
  watch(id: string): Observable<string> {
    return of(id);
  }
}

function lockModule(url = redis.url) {
  return RedisLockModule.forRoot({ connection: url, leaseMs: 600 });
}

/** Not `withLock`: a call from inside would join. */
async function whileBusy(locks: LockService, id: string, work: () => Promise<unknown>) {
  const lock = await locks.acquire(`stock:${id}`);
  try {
    await work();
  } finally {
    await lock.release();
  }
}

describe('LockExceptionFilter in a microservice', () => {
  const booked: string[] = [];

  @Controller()
  class StockController {
    constructor(private readonly stock: Stock) {}

    @MessagePattern('take')
    take(@Payload() id: string): Promise<string> {
      return this.stock.take(id);
    }

    @MessagePattern('watch')
    watch(@Payload() id: string): Observable<string> {
      return this.stock.watch(id);
    }

    @EventPattern('taken')
    async onTaken(@Payload() id: string): Promise<void> {
      booked.push(await this.stock.take(id));
    }
  }

  /** With the filter as a controller names it. */
  @Controller()
  @UseFilters(LockExceptionFilter)
  class FilteringController extends StockController {}

  const appFilter = { provide: APP_FILTER, useClass: LockExceptionFilter };
  const tcp = { transport: Transport.TCP, options: { host: '127.0.0.1', port: 0 } } as const;

  async function connect(server: Server): Promise<ClientProxy> {
    const { port } = server.address() as { port: number };
    const options = { host: '127.0.0.1', port };
    const client = ClientProxyFactory.create({ transport: Transport.TCP, options });
    afterTest(() => client.close());
    await client.connect();
    return client;
  }

  async function startService(
    controller: typeof StockController,
    providers: Provider[] = [],
    url = redis.url,
  ) {
    const root = {
      module: class Root {},
      imports: [lockModule(url)],
      controllers: [controller],
      providers: [Stock, ...providers],
    };
    const app = await NestFactory.createMicroservice(root, { ...tcp, logger: false });
    afterTest(() => app.close());
    await app.listen();
    return { locks: app.get(LockService), client: await connect(app.unwrap<Server>()) };
  }

  function ask(client: ClientProxy, pattern: string, id: string): Promise<unknown> {
    return firstValueFrom(client.send(pattern, id).pipe(timeout(ANSWER_LIMIT_MS)));
  }

  it.each([
    ['of its controller', FilteringController, []],
    ['of the application', StockController, [appFilter]],
  ])('%s answers a busy call over TCP, then the next one succeeds', async (_, type, providers) => {
    const { client, locks } = await startService(type, providers);
    const id = uniqueKey();
    await whileBusy(locks, id, async () => {
      await expect(ask(client, 'take', id)).rejects.toEqual(BUSY);
      await expect(ask(client, 'watch', id)).rejects.toEqual(BUSY);
    });
    await expect(ask(client, 'take', id)).resolves.toBe(id);
    await expect(ask(client, 'watch', id)).resolves.toBe(id);
  });

  it('of a hybrid application answers its microservice, too', async () => {
    const filter = new LockExceptionFilter();
    const { app } = await startHttp(
      { imports: [lockModule()], controllers: [StockController], providers: [Stock] },
      (hybrid) => hybrid.useGlobalFilters(filter),
    );
    const service = app.connectMicroservice(tcp, { inheritAppConfig: true });
    await app.startAllMicroservices();
    const client = await connect(service.unwrap<Server>());
    const id = uniqueKey();
    await whileBusy(app.get(LockService), id, async () => {
      await expect(ask(client, 'take', id)).rejects.toEqual(BUSY);
    });
  });

  it('answers while Redis does not, with the time of its options', async () => {
    const server = await startRedisServer();
    const filter = new LockExceptionFilter({ retryAfterSeconds: 7 });
    const providers = [{ provide: APP_FILTER, useValue: filter }];
    const { client } = await startService(StockController, providers, server.url);
    afterTest(() => server.resume());
    server.pause();
    await expect(ask(client, 'take', uniqueKey())).rejects.toEqual(UNAVAILABLE);
  });

  it('lets an event go that cannot be handled now, and the service goes on', async () => {
    const { client, locks } = await startService(FilteringController);
    const [busy, free] = [uniqueKey(), uniqueKey()];
    await whileBusy(locks, busy, async () => {
      client.emit('taken', busy);
      await expect(ask(client, 'take', busy)).rejects.toEqual(BUSY);
    });
    client.emit('taken', free);
    await eventually(() => expect(booked).toContain(free));
    expect(booked).not.toContain(busy);
  });
});

describe('LockExceptionFilter of a gateway', () => {
  @WebSocketGateway({ path: '/stock' })
  @UseFilters(LockExceptionFilter)
  class StockGateway {
    constructor(private readonly stock: Stock) {}

    @SubscribeMessage('take')
    async take(@MessageBody() id: string): Promise<object> {
      return { event: 'taken', data: await this.stock.take(id) };
    }
  }

  it('sends `exception` over a WebSocket, then the next message succeeds', async () => {
    const { app, url } = await startHttp(
      { imports: [lockModule()], providers: [Stock, StockGateway] },
      (gateway) => gateway.useWebSocketAdapter(new WsAdapter(gateway)),
    );
    const client = new WebSocket(`${url.replace('http', 'ws')}/stock`);
    afterTest(() => client.terminate());
    const messages = new MessageLog<unknown>();
    client.on('message', (data: Buffer) => messages.add(JSON.parse(data.toString())));
    await once(client, 'open');

    const id = uniqueKey();
    const take = JSON.stringify({ event: 'take', data: id });
    await whileBusy(app.get(LockService), id, async () => {
      client.send(take);
      expect(await messages.next()).toEqual({ event: 'exception', data: BUSY });
    });
    client.send(take);
    expect(await messages.next()).toEqual({ event: 'taken', data: id });
  });
});

describe('LockExceptionFilter where requests are of another kind', () => {
  @Injectable()
  @UseFilters(LockExceptionFilter)
  class Handlers {
    constructor(private readonly stock: Stock) {}

    take(_client: unknown, id: string): Promise<string> {
      return this.stock.take(id);
    }
  }

  /** Nest calls the method as it does for packages that bring a kind of request of their own. */
  async function handlerOf(kind: string) {
    const app = await startNest({ imports: [lockModule()], providers: [Stock, Handlers] });
    const handlers = app.get(Handlers);
    const take = handlers.take.bind(handlers) as (...args: unknown[]) => Promise<string>;
    const defaults = [undefined, undefined, undefined, undefined, undefined] as const;
    const handler = app
      .get(ExternalContextCreator)
      .create(handlers, take, 'take', ...defaults, kind) as typeof take;
    return { locks: app.get(LockService), handler };
  }

  function failure(call: Promise<unknown>): Promise<unknown> {
    return call.catch((error: unknown) => error);
  }

  it('lets GraphQL fail with the code, and does not show the key', async () => {
    const { locks, handler } = await handlerOf('graphql');
    const id = uniqueKey();
    await whileBusy(locks, id, async () => {
      const error = (await failure(handler({}, id))) as Error & { extensions: object };
      expect(error).toBeInstanceOf(Error);
      expect({ message: error.message, ...error.extensions }).toEqual(BUSY);
      expect(error.stack).not.toContain(id);
      expect(error).toHaveProperty('cause.key', `stock:${id}`);
    });
    expect(await handler({}, id)).toBe(id);
  });

  it('leaves the error as it is for a kind that it does not know', async () => {
    const { locks, handler } = await handlerOf('telegraf');
    const id = uniqueKey();
    await whileBusy(locks, id, async () => {
      expect(await failure(handler({}, id))).toMatchObject({ code: BUSY.code, key: `stock:${id}` });
    });
  });

  it('emits `exception` to the client of a gateway that is no WebSocket, as those of Socket.IO', async () => {
    const { locks, handler } = await handlerOf('ws');
    const id = uniqueKey();
    const client = new EventEmitter();
    const emitted: unknown[] = [];
    client.on('exception', (content) => emitted.push(content));
    await whileBusy(locks, id, () => failure(handler(client, id)));
    expect(emitted).toEqual([BUSY]);
  });

  it('leaves the error as it is for the client of a gateway that cannot be told', async () => {
    const { locks, handler } = await handlerOf('ws');
    const id = uniqueKey();
    await whileBusy(locks, id, async () => {
      expect(await failure(handler({}, id))).toMatchObject({ key: `stock:${id}` });
    });
  });
});
