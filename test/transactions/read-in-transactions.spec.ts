/** Results that are read, and left, inside of the transaction that opened the lock, or is restarted for it. */
import { beforeEach, expect, it } from '@jest/globals';
import {
  type CallHandler,
  Controller,
  type ExecutionContext,
  Injectable,
  type NestInterceptor,
  Post,
  UseInterceptors,
} from '@nestjs/common';
import { MessagePattern } from '@nestjs/microservices';
import {
  KeyParam,
  Locked,
  type LockError,
  LockInterceptor,
  LockService,
  RedisLockModule,
} from 'nestjs-locked';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import {
  defer,
  firstValueFrom,
  from,
  lastValueFrom,
  type Observable,
  of,
  switchMap,
  take,
} from 'rxjs';
import type { DataSource, EntityManager } from 'typeorm';
import { once } from 'node:events';
import { Readable } from 'node:stream';
import { usePostgres } from '../support/databases.js';
import { startHttp } from '../support/nest-app.js';
import { useRedis } from '../support/shared-redis.js';
import { connectTcp } from '../support/tcp-client.js';
import { openDataSource } from './data-source.js';
import { startLocks } from './locks.js';
import { useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);

const RESTART = { insideTransaction: 'restart' } as const;

let dataSource: DataSource;
let manager: EntityManager;
let runs: number;

function inTransaction<T>(body: () => Promise<T>): Promise<T> {
  return dataSource.transaction((opened) => {
    runs++;
    manager = opened;
    return body();
  });
}

async function takeOne(): Promise<string> {
  await stock.takeOne(manager);
  return 'sold';
}

@Injectable()
class StockService {
  @Locked('stock:<product>', { ...RESTART, returns: 'observable' })
  watched(@KeyParam('product') _product: string): Observable<string> {
    return defer(() => takeOne());
  }

  @Locked('stock:<product>', RESTART)
  async *listed(@KeyParam('product') _product: string): AsyncGenerator<string> {
    yield await takeOne();
  }
}

/** Opens a transaction that reads the result in this way. */
function transactionInterceptor(
  read: (result: Observable<unknown>) => Promise<unknown>,
): NestInterceptor {
  return {
    intercept: (_context: ExecutionContext, next: CallHandler) =>
      from(inTransaction(() => read(next.handle()))),
  };
}

const ofLastValue = transactionInterceptor((result) => lastValueFrom(result));
const ofFirstValue = transactionInterceptor((result) => firstValueFrom(result));

@Controller('stock/:product')
class StockController {
  @Post()
  @UseInterceptors(ofLastValue, LockInterceptor('stock:<params.product>', RESTART))
  async take(): Promise<string> {
    return takeOne();
  }

  @MessagePattern('take first')
  @UseInterceptors(ofFirstValue, LockInterceptor('stock:<data.product>', RESTART))
  async takeFirst(): Promise<string> {
    return takeOne();
  }

  @MessagePattern('take')
  @UseInterceptors(ofLastValue, LockInterceptor('stock:<data.product>', RESTART))
  async takeByMessage(): Promise<string> {
    return takeOne();
  }
}

interface Started {
  readonly service: StockService;
  readonly locks: LockService;
  readonly url: string;
  readonly send: (pattern: string) => Promise<unknown>;
}

const CALLS: [what: string, call: (started: Started) => Promise<unknown>][] = [
  [
    'a locked method that returns an Observable',
    ({ service }) => inTransaction(() => lastValueFrom(service.watched(stock.product))),
  ],
  [
    'a locked method that yields',
    ({ service }) =>
      inTransaction(async () => {
        for await (const answer of service.listed(stock.product)) return answer;
        return undefined;
      }),
  ],
  [
    'LockInterceptor on a route',
    async ({ url }) => (await fetch(`${url}/stock/${stock.product}`, { method: 'POST' })).text(),
  ],
  ['LockInterceptor on a handler of messages', ({ send }) => send('take')],
  ['LockInterceptor on a handler whose first value is enough', ({ send }) => send('take first')],
  [
    'an Observable whose first value is enough',
    ({ service }) => inTransaction(() => firstValueFrom(service.watched(stock.product))),
  ],
  [
    'an Observable that another one has taken the place of',
    ({ service }) =>
      inTransaction(() =>
        lastValueFrom(
          of('another', stock.product).pipe(switchMap((product) => service.watched(product))),
        ),
      ),
  ],
  [
    'a locked method that yields, read as a stream',
    ({ service }) =>
      inTransaction(async () => {
        const stream = Readable.from(service.listed(stock.product));
        const [answer] = (await once(stream, 'data')) as unknown[];
        await once(stream, 'close');
        return answer;
      }),
  ],
  [
    'a call whose signal is aborted when it has ended',
    ({ locks }) =>
      inTransaction(async () => {
        const leaving = new AbortController();
        try {
          const options = { ...RESTART, signal: leaving.signal };
          return await locks.withLock(stock.key, options, takeOne);
        } finally {
          leaving.abort();
        }
      }),
  ],
];

beforeEach(async () => {
  dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings));
  runs = 0;
});

it.each(CALLS)('%s is run again in the transaction that is restarted for it', async (_, call) => {
  const { app, url } = await startHttp({
    imports: [RedisLockModule.forRoot({ connection: redis.url })],
    controllers: [StockController],
    providers: [StockService],
  });
  const client = await connectTcp(app);
  const started: Started = {
    service: app.get(StockService),
    locks: app.get(LockService),
    url,
    send: (pattern) => lastValueFrom(client.send(pattern, { product: stock.product })),
  };
  expect(await call(started)).toBe('sold');
  expect([runs > 1, await stock.quantity()]).toEqual([true, 99]);
  expect(await app.get(LockService).inspect(stock.key)).toBeNull();
});

it('a call whose signal was aborted before is refused, and the transaction continues', async () => {
  const { locks } = await startLocks(redis.url);
  const signal = AbortSignal.abort();
  const code = await inTransaction(async () => {
    const call = locks.withLock(stock.key, { ...RESTART, signal }, takeOne);
    return call.catch((error: unknown) => (error as LockError).code);
  });
  expect([code, runs, await stock.quantity()]).toEqual(['LOCK_ABORTED', 1, 100]);
});

it.each([
  ['the first one', (values: Observable<string>) => firstValueFrom(values)],
  ['one of them', (values: Observable<string>) => lastValueFrom(values.pipe(take(1)))],
])('an Observable under the lock around may be left after %s', async (_, read) => {
  const { app, locks } = await startLocks(redis.url, {}, [StockService]);
  const service = app.get(StockService);
  const sale = locks.withLock(stock.key, () =>
    inTransaction(() => read(service.watched(stock.product))),
  );
  expect([await sale, await stock.quantity()]).toEqual(['sold', 99]);
});
