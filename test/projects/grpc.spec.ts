/** Locks behind gRPC, asked by real clients of grpc-js. */
import {
  type CallOptions,
  type Client,
  type ClientDuplexStream,
  type ClientReadableStream,
  type ClientUnaryCall,
  type ClientWritableStream,
  credentials,
  loadPackageDefinition,
  type sendUnaryData,
  type ServerDuplexStream,
  type ServerReadableStream,
  type ServiceError,
  status,
} from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { Controller, Injectable, Logger, UseInterceptors } from '@nestjs/common';
import { APP_FILTER, NestFactory } from '@nestjs/core';
import { GrpcMethod, GrpcStreamCall, GrpcStreamMethod, Transport } from '@nestjs/microservices';
import {
  LockAbortedError,
  LockCommitUnknownError,
  LockConfigError,
  LockDeadlockError,
  Locked,
  LockError,
  LockExceptionFilter,
  LockFencedError,
  LockInterceptor,
  LockInTransactionError,
  LockKeyError,
  LockLostError,
  LockNotAcquiredError,
  LockNotHeldError,
  LockQueueFullError,
  LockStoreError,
} from 'nestjs-locked';
import { LockTestingModule, TestLocks } from 'nestjs-locked/testing';
import { map, NEVER, type Observable, startWith, toArray } from 'rxjs';
import { createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import { LOG_CONTEXT } from '../../libs/nestjs-locked/src/core/log-context.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { RecordingLogger } from '../support/recording-logger.js';

const PROTO = fileURLToPath(new URL('grpc/stock.proto', import.meta.url));

interface Item {
  readonly id: string;
}

const ERRORS: readonly LockError[] = [
  new LockNotAcquiredError('secret', 'secret', 20),
  new LockStoreError('secret', 'secret'),
  new LockAbortedError('secret', 'secret'),
  new LockKeyError('secret'),
  new LockLostError('secret', 'secret', 'expired'),
  new LockNotHeldError('secret', 'secret'),
  new LockQueueFullError('secret', 'secret'),
  new LockDeadlockError('secret', 'secret', []),
  new LockFencedError('secret', 'secret', 1, 2),
  new LockCommitUnknownError('secret', 'secret'),
  new LockInTransactionError('secret', 'secret'),
  new LockConfigError('secret'),
];

function echo(call: ServerDuplexStream<Item, Item>): void {
  call.on('data', (item: Item) => call.write(item));
  call.on('end', () => call.end());
}

/** What ran. */
let ran: string[];

beforeEach(() => {
  ran = [];
});

@Injectable()
class Stock {
  @Locked('stock:<id>', { waitMs: 0 })
  async take(id: string): Promise<Item> {
    return { id };
  }
}

@Controller()
class StockController {
  constructor(private readonly stock: Stock) {}

  @GrpcMethod('Stock', 'Take')
  take({ id }: Item): Promise<Item> {
    return this.stock.take(id);
  }

  @GrpcMethod('Stock', 'Skip')
  @UseInterceptors(
    LockInterceptor('stock:<data.id>', { waitMs: 0, onBusy: () => ({ id: 'busy' }) }),
  )
  skip(item: Item): Item {
    return item;
  }

  @GrpcMethod('Stock', 'TakeSlowly')
  @UseInterceptors(LockInterceptor('stock:<data.id>', { waitMs: 60_000 }))
  takeSlowly(item: Item): Item {
    ran.push(item.id);
    return item;
  }

  @GrpcMethod('Stock', 'Watch')
  @UseInterceptors(LockInterceptor('stock:<data.id>', { waitMs: 60_000 }))
  watch(item: Item): Observable<Item> {
    ran.push(item.id);
    return NEVER.pipe(startWith(item));
  }

  @GrpcStreamMethod('Stock', 'TakeAll')
  @UseInterceptors(LockInterceptor(() => 'stock:all', { waitMs: 0 }))
  takeAll(items: Observable<Item>): Observable<Item> {
    return items.pipe(
      toArray(),
      map((all) => ({ id: all.map(({ id }) => id).join(' ') })),
    );
  }

  @GrpcStreamCall('Stock', 'Exchange')
  @UseInterceptors(LockInterceptor(() => 'stock:all', { waitMs: 0 }))
  exchange(call: ServerDuplexStream<Item, Item>): void {
    echo(call);
  }

  @GrpcStreamCall('Stock', 'WaitAndExchange')
  @UseInterceptors(LockInterceptor(() => 'stock:all', { waitMs: 60_000 }))
  waitAndExchange(call: ServerDuplexStream<Item, Item>): void {
    ran.push('exchange');
    echo(call);
  }

  @GrpcStreamCall('Stock', 'Collect')
  @UseInterceptors(LockInterceptor(() => 'stock:all', { waitMs: 0 }))
  collect(call: ServerReadableStream<Item, Item>, callback: sendUnaryData<Item>): void {
    call.on('data', (item: Item) => callback(null, item));
  }

  @GrpcMethod('Stock', 'Fail')
  fail({ id }: Item): Observable<Item> {
    if (id === 'in work') throw new LockStoreError('secret', 'secret', undefined, true);
    throw ERRORS.find(({ code }) => code === id) as LockError;
  }
}

type Done = (error: ServiceError | null, answer?: Item) => void;

interface Call {
  (item: Item, done: Done): ClientUnaryCall;
  (item: Item, options: CallOptions, done: Done): ClientUnaryCall;
}

interface StockClient extends Client {
  readonly Take: Call;
  readonly Skip: Call;
  readonly TakeSlowly: Call;
  readonly Fail: Call;
  readonly Watch: (item: Item) => ClientReadableStream<Item>;
  readonly TakeAll: (done: Done) => ClientWritableStream<Item>;
  readonly Collect: (done: Done) => ClientWritableStream<Item>;
  readonly Exchange: () => ClientDuplexStream<Item, Item>;
  readonly WaitAndExchange: () => ClientDuplexStream<Item, Item>;
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function startShop() {
  const locks = new TestLocks();
  const log = new RecordingLogger();
  const url = `127.0.0.1:${await freePort()}`;
  const app = await NestFactory.createMicroservice(
    {
      module: class Root {},
      imports: [LockTestingModule.forRoot({ locks })],
      controllers: [StockController],
      providers: [Stock, { provide: APP_FILTER, useClass: LockExceptionFilter }],
    },
    {
      transport: Transport.GRPC,
      options: { package: 'stock', protoPath: PROTO, url },
      logger: log,
    },
  );
  afterTest(() => app.close());
  afterTest(() => Logger.overrideLogger(false));
  await app.listen();
  const loaded = loadPackageDefinition(loadSync(PROTO)) as unknown as {
    readonly stock: {
      readonly Stock: new (url: string, credentials: unknown, options?: object) => StockClient;
    };
  };
  const connect = (options?: object): StockClient => {
    const client = new loaded.stock.Stock(url, credentials.createInsecure(), options);
    afterTest(() => client.close());
    return client;
  };
  return { locks, log, client: connect(), connect };
}

interface Refusal {
  readonly code: status;
  readonly details: string;
  readonly metadata: Record<string, unknown>;
}

function ask(
  client: StockClient,
  method: 'Take' | 'Skip' | 'Fail' | 'TakeSlowly',
  id: string,
): Promise<Item | Refusal> {
  return new Promise((resolve) => {
    client[method]({ id }, (error, answer) =>
      resolve(error === null ? (answer as Item) : refusal(error)),
    );
  });
}

function refusal({ code, details, metadata }: ServiceError): Refusal {
  const trailers = Object.entries(metadata.getMap()).filter(([name]) => /^(lock|grpc)-/.test(name));
  return { code, details, metadata: Object.fromEntries(trailers) };
}

const BUSY: Refusal = {
  code: status.ABORTED,
  details: 'In use, try again',
  metadata: { 'lock-error-code': 'LOCK_NOT_ACQUIRED', 'grpc-retry-pushback-ms': '1000' },
};

it('a busy call is refused as ABORTED with the time to retry, then the next one succeeds', async () => {
  const { locks, client } = await startShop();
  const other = locks.hold('stock:42');
  expect(await ask(client, 'Take', '42')).toEqual(BUSY);
  expect(await ask(client, 'Skip', '42')).toEqual({ id: 'busy' });
  other.release();
  expect(await ask(client, 'Take', '42')).toEqual({ id: '42' });
  expect(await ask(client, 'Skip', '42')).toEqual({ id: '42' });
});

it.each([
  ['LOCK_STORE_FAILED', status.UNAVAILABLE, 'Locks are unavailable, try again', '1000'],
  ['LOCK_QUEUE_FULL', status.UNAVAILABLE, 'Too many wait for it, try again', '1000'],
  ['LOCK_DEADLOCK', status.ABORTED, 'In use, try again', '1000'],
  ['LOCK_ABORTED', status.UNAVAILABLE, 'Locks are unavailable, try again', '1000'],
  ['LOCK_KEY_INVALID', status.INVALID_ARGUMENT, 'Invalid Argument', undefined],
  ['LOCK_LOST', status.INTERNAL, 'Internal Server Error', undefined],
  ['LOCK_NOT_HELD', status.INTERNAL, 'Internal Server Error', undefined],
  ['LOCK_FENCED', status.INTERNAL, 'Internal Server Error', undefined],
  ['LOCK_COMMIT_UNKNOWN', status.INTERNAL, 'Internal Server Error', undefined],
  ['LOCK_IN_TRANSACTION', status.INTERNAL, 'Internal Server Error', undefined],
  ['LOCK_CONFIG_INVALID', status.INTERNAL, 'Internal Server Error', undefined],
])('%s becomes status %d, without the key', async (id, code, details, pushback) => {
  const { client } = await startShop();
  const retry = pushback === undefined ? {} : { 'grpc-retry-pushback-ms': pushback };
  expect(await ask(client, 'Fail', id)).toEqual({
    code,
    details,
    metadata: { 'lock-error-code': id, ...retry },
  });
});

it('Redis away once the work has begun becomes INTERNAL, which no client repeats', async () => {
  const { client } = await startShop();
  expect(await ask(client, 'Fail', 'in work')).toEqual({
    code: status.INTERNAL,
    details: 'Service Unavailable',
    metadata: { 'lock-error-code': 'LOCK_STORE_FAILED' },
  });
});

it('a wrong key is refused as INVALID_ARGUMENT, and the log names the handler', async () => {
  const { client, log } = await startShop();
  expect(await ask(client, 'Skip', '')).toMatchObject({ code: status.INVALID_ARGUMENT });
  expect(log.lines(LOG_CONTEXT)).toEqual([
    expect.stringMatching(/^error LockKeyError: .* of StockController\.skip: <data\.id> is ''/),
  ]);
});

it('a client with a retry policy tries again when it was told to', async () => {
  const { locks, connect } = await startShop();
  const retryPolicy = {
    maxAttempts: 2,
    initialBackoff: '60s',
    maxBackoff: '60s',
    backoffMultiplier: 1,
    retryableStatusCodes: ['ABORTED', 'UNAVAILABLE'],
  };
  const client = connect({
    'grpc.service_config': JSON.stringify({
      methodConfig: [{ name: [{ service: 'stock.Stock' }], retryPolicy }],
    }),
  });
  const other = locks.hold('stock:42');
  const answer = ask(client, 'Take', '42');
  await eventually(() => expect(locks.calls).toMatchObject([{ outcome: 'busy' }]));
  other.release();
  expect(await answer).toEqual({ id: '42' });
});

describe('a stream', () => {
  it('of the client is refused while the lock is busy', async () => {
    const { locks, client } = await startShop();
    const takeAll = (): Promise<unknown> =>
      new Promise((resolve) => {
        const items = client.TakeAll((error, answer) => {
          resolve(error === null ? answer : refusal(error));
        });
        items.write({ id: 'a' });
        items.end({ id: 'b' });
      });
    const other = locks.hold('stock:all');
    expect(await takeAll()).toEqual(BUSY);
    other.release();
    expect(await takeAll()).toEqual({ id: 'a b' });
  });

  it.each(['Exchange', 'Collect'] as const)(
    'that its handler answers itself is refused while the lock is busy: %s',
    async (method) => {
      const { locks, client } = await startShop();
      const exchange = (): Promise<unknown> =>
        new Promise((resolve) => {
          const done: Done = (error, answer) => resolve(error === null ? answer : refusal(error));
          const call = method === 'Exchange' ? client.Exchange() : client.Collect(done);
          call.on('data', (item) => done(null, item as Item));
          call.on('error', (error) => done(error as ServiceError));
          call.end({ id: 'a' });
        });
      const other = locks.hold('stock:all');
      expect(await exchange()).toEqual(BUSY);
      other.release();
      expect(await exchange()).toEqual({ id: 'a' });
    },
  );
});

it.each(['TakeSlowly', 'Watch', 'Exchange'] as const)(
  'nothing runs for a client that cancels %s while it waits',
  async (method) => {
    const { locks, client, log } = await startShop();
    const key = method === 'Exchange' ? 'stock:all' : 'stock:42';
    const other = locks.hold(key);
    const call =
      method === 'TakeSlowly'
        ? client.TakeSlowly({ id: '42' }, () => {})
        : method === 'Watch'
          ? client.Watch({ id: '42' })
          : client.WaitAndExchange();
    call.on('error', () => {}); // cancelled
    await locks.untilWaiting(key);
    call.cancel();
    await eventually(() => expect(locks.calls).toMatchObject([{ outcome: 'aborted' }]));
    other.release();
    locks.hold(key).release();
    expect(ran).toEqual([]);
    expect(log.lines('RpcExceptionsHandler')).toEqual([]);
  },
);

it('a deadline that passes ends the wait', async () => {
  const { locks, client } = await startShop();
  const other = locks.hold('stock:42');
  const answer = new Promise((resolve) => {
    client.TakeSlowly({ id: '42' }, { deadline: Date.now() + 500 }, (error) =>
      resolve(error?.code),
    );
  });
  expect(await answer).toBe(status.DEADLINE_EXCEEDED);
  await eventually(() => expect(locks.calls).toMatchObject([{ outcome: 'aborted' }]));
  other.release();
  expect(ran).toEqual([]);
});
