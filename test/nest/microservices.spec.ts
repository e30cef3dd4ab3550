/** Locks behind microservices, asked over real connections. */
import { describe, expect, it } from '@jest/globals';
import {
  type CallHandler,
  Controller,
  type ExecutionContext,
  Injectable,
  type NestInterceptor,
  type Type,
  UseFilters,
  UseInterceptors,
} from '@nestjs/common';
import { APP_FILTER, NestFactory } from '@nestjs/core';
import {
  type ClientProxy,
  ClientProxyFactory,
  EventPattern,
  MessagePattern,
  type MicroserviceOptions,
  Payload,
  Transport,
} from '@nestjs/microservices';
import {
  Locked,
  LockExceptionFilter,
  type LockExceptionFilterOptions,
  LockInterceptor,
  LockService,
  RedisLockModule,
} from 'nestjs-locked';
import { from, lastValueFrom, type Observable, of, tap, timeout, toArray } from 'rxjs';
import type { Server } from 'node:net';
import { LOG_CONTEXT } from '../../libs/nestjs-locked/src/core/log-context.js';
import { afterTest } from '../support/after-test.js';
import { whileBusy } from '../support/busy-lock.js';
import { eventually } from '../support/eventually.js';
import { startHttp } from '../support/nest-app.js';
import { startRedisServer, useRedisServer } from '../support/own-redis.js';
import { RecordingLogger } from '../support/recording-logger.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const BUSY = { code: 'LOCK_NOT_ACQUIRED', message: 'In use, try again', retryAfterMs: 1_000 };
/** A call that is not answered must fail the test, not wait for ever. */
const ANSWER_LIMIT_MS = 60_000;

const redis = useRedis();
const broker = useRedisServer();
const booked: string[] = [];
const refused: string[] = [];

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

class RefusalInterceptor implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const { id } = context.switchToRpc().getData<{ id: string }>();
    return next.handle().pipe(tap({ error: () => refused.push(id) }));
  }
}

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

  @MessagePattern({ cmd: 'list', of: 'stock' })
  @UseInterceptors(LockInterceptor('stock:<data.id>', { waitMs: 20 }))
  list(@Payload() { id }: { id: string }): Observable<string> {
    return from([id, 'and', 'more']);
  }

  @MessagePattern('skip')
  @UseInterceptors(LockInterceptor('stock:<data.id>', { waitMs: 0, onBusy: 'skip' }))
  skip(): string {
    return 'sold';
  }

  @EventPattern('taken')
  async onTaken(@Payload() id: string): Promise<void> {
    try {
      booked.push(await this.stock.take(id));
    } catch (error) {
      refused.push(id);
      throw error;
    }
  }

  @EventPattern('returned')
  @UseInterceptors(RefusalInterceptor, LockInterceptor('stock:<data.id>', { waitMs: 20 }))
  onReturned(@Payload() { id }: { id: string }): void {
    booked.push(id);
  }
}

/** With the filter on the controller. */
@Controller()
@UseFilters(LockExceptionFilter)
class FilteringController extends StockController {}

interface ServiceParts {
  readonly controller?: Type;
  /** Of the filter of the application; none if the controller has one. */
  readonly filter?: LockExceptionFilterOptions;
  /** Of the locks. */
  readonly url?: string;
}

interface Service {
  readonly locks: LockService;
  readonly client: ClientProxy;
  readonly log: RecordingLogger;
}

const OPTIONS: Readonly<Record<string, () => MicroserviceOptions>> = {
  TCP: () => ({ transport: Transport.TCP, options: { host: '127.0.0.1', port: 0 } }),
  Redis: () => ({ transport: Transport.REDIS, options: { host: '127.0.0.1', port: broker.port } }),
};

async function startService(transport: string, parts: ServiceParts = {}): Promise<Service> {
  const { controller = FilteringController, filter, url = redis.url } = parts;
  const useValue = filter && new LockExceptionFilter(filter);
  const root = {
    module: class Root {},
    imports: [RedisLockModule.forRoot({ connection: url, leaseMs: 3_000 })],
    controllers: [controller],
    providers: [Stock, ...(useValue ? [{ provide: APP_FILTER, useValue }] : [])],
  };
  const log = new RecordingLogger();
  const options = OPTIONS[transport]?.() as MicroserviceOptions;
  const app = await NestFactory.createMicroservice(root, {
    ...options,
    logger: log,
    abortOnError: false,
  });
  afterTest(() => app.close());
  await app.listen();
  const client = await connect(transport === 'TCP' ? toServer(app.unwrap<Server>()) : options);
  return { locks: app.get(LockService), client, log };
}

function toServer(server: Server): object {
  const { port } = server.address() as { port: number };
  return { transport: Transport.TCP, options: { host: '127.0.0.1', port } };
}

async function connect(options: object): Promise<ClientProxy> {
  const client = ClientProxyFactory.create(options);
  afterTest(() => client.close());
  await client.connect();
  return client;
}

/** All values of the answer. */
function ask(client: ClientProxy, pattern: unknown, data: unknown): Promise<unknown[]> {
  return lastValueFrom(
    client.send<unknown>(pattern, data).pipe(timeout(ANSWER_LIMIT_MS), toArray()),
  );
}

describe.each(['TCP', 'Redis'])('over %s', (transport) => {
  it.each([
    ['of its controller', { controller: FilteringController }],
    ['of the application', { controller: StockController, filter: {} }],
  ])('the filter %s answers a busy call, then the next one succeeds', async (_, parts) => {
    const { client, locks } = await startService(transport, parts);
    const id = uniqueKey();
    await whileBusy(locks, `stock:${id}`, async () => {
      await expect(ask(client, 'take', id)).rejects.toEqual(BUSY);
      await expect(ask(client, 'watch', id)).rejects.toEqual(BUSY);
    });
    await expect(ask(client, 'take', id)).resolves.toEqual([id]);
    await expect(ask(client, 'watch', id)).resolves.toEqual([id]);
  });

  it('the filter answers while Redis does not, with the retry time of its options', async () => {
    const server = await startRedisServer();
    const { client } = await startService(transport, {
      controller: StockController,
      filter: { retryAfterSeconds: 7 },
      url: server.url,
    });
    const id = uniqueKey();
    await expect(ask(client, 'take', id)).resolves.toEqual([id]);
    afterTest(() => server.resume());
    server.pause();
    await expect(ask(client, 'take', id)).rejects.toEqual({
      code: 'LOCK_STORE_FAILED',
      message: 'Locks are unavailable, try again',
      retryAfterMs: 7_000,
    });
  });

  it('a LockInterceptor takes the key from the payload, and keeps it until the last value', async () => {
    const { client, locks } = await startService(transport);
    const id = uniqueKey();
    const pattern = { of: 'stock', cmd: 'list' };
    await whileBusy(locks, `stock:${id}`, async () => {
      await expect(ask(client, pattern, { id })).rejects.toEqual(BUSY);
      await expect(ask(client, 'skip', { id })).resolves.toEqual([undefined]);
    });
    await expect(ask(client, pattern, { id })).resolves.toEqual([id, 'and', 'more']);
    await expect(ask(client, 'skip', { id })).resolves.toEqual(['sold']);
  });

  it('a missing value is an internal error, and the log names the handler', async () => {
    const { client, log } = await startService(transport);
    await expect(ask(client, 'skip', {})).rejects.toEqual({
      code: 'LOCK_KEY_INVALID',
      message: 'Internal Server Error',
    });
    expect(log.lines(LOG_CONTEXT)).toEqual([
      expect.stringMatching(
        /^error LockKeyError: .* of FilteringController\.skip: <data\.id> is undefined/,
      ),
    ]);
  });

  it('an event that cannot be handled now does not stop later ones', async () => {
    const { client, locks } = await startService(transport);
    const [busy, free] = [uniqueKey(), uniqueKey()];
    await whileBusy(locks, `stock:${busy}`, async () => {
      client.emit('taken', busy);
      client.emit('returned', { id: busy });
      await expect(ask(client, 'take', busy)).rejects.toEqual(BUSY);
      await eventually(() => expect(refused.filter((id) => id === busy)).toHaveLength(2));
    });
    client.emit('taken', free);
    client.emit('returned', { id: `${free}-returned` });
    await eventually(() =>
      expect(booked).toEqual(expect.arrayContaining([free, `${free}-returned`])),
    );
    expect(booked).not.toContain(busy);
  });
});

it('the global filter of a hybrid application also answers the microservice', async () => {
  const { app } = await startHttp(
    {
      imports: [RedisLockModule.forRoot({ connection: redis.url })],
      controllers: [StockController],
      providers: [Stock],
    },
    (hybrid) => hybrid.useGlobalFilters(new LockExceptionFilter()),
  );
  const service = app.connectMicroservice(OPTIONS['TCP']?.() as MicroserviceOptions, {
    inheritAppConfig: true,
  });
  await app.startAllMicroservices();
  const client = await connect(toServer(service.unwrap<Server>()));
  const id = uniqueKey();
  await whileBusy(app.get(LockService), `stock:${id}`, async () => {
    await expect(ask(client, 'take', id)).rejects.toEqual(BUSY);
  });
});
