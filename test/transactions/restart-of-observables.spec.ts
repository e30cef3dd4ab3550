/** Who subscribes leaves with the run that is rolled back. That must not end the wait of the next run. */
import { expect, it } from '@jest/globals';
import {
  type CallHandler,
  Controller,
  type ExecutionContext,
  Injectable,
  type NestInterceptor,
  Param,
  Post,
  UseInterceptors,
} from '@nestjs/common';
import { MessagePattern, Payload } from '@nestjs/microservices';
import { Locked, LockInterceptor, LockService, RedisLockModule } from 'nestjs-locked';
import { lockAware } from 'nestjs-locked/typeorm';
import { defer, from, lastValueFrom, type Observable } from 'rxjs';
import type { DataSource, EntityManager } from 'typeorm';
import { usePostgres } from '../support/databases.js';
import { startHttp } from '../support/nest-app.js';
import { useRedis } from '../support/shared-redis.js';
import { connectTcp } from '../support/tcp-client.js';
import { openDataSource } from './data-source.js';
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
  watched(product: string): Observable<string> {
    return defer(() => takeOne());
  }

  @Locked('stock:<product>', RESTART)
  async *listed(product: string): AsyncGenerator<string> {
    yield await takeOne();
  }
}

class TransactionInterceptor implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return from(inTransaction(() => lastValueFrom(next.handle())));
  }
}

@Controller('stock/:product')
class StockController {
  @Post()
  @UseInterceptors(TransactionInterceptor, LockInterceptor('stock:<params.product>', RESTART))
  async take(@Param('product') product: string): Promise<string> {
    return takeOne();
  }

  @MessagePattern('take')
  @UseInterceptors(TransactionInterceptor, LockInterceptor('stock:<data.product>', RESTART))
  async takeByMessage(@Payload() { product }: { product: string }): Promise<string> {
    return takeOne();
  }
}

interface Started {
  readonly service: StockService;
  readonly url: string;
  send(product: string): Promise<unknown>;
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
  ['LockInterceptor on a handler of messages', ({ send }) => send(stock.product)],
];

it.each(CALLS)('%s is run again in the transaction that is restarted for it', async (_, call) => {
  dataSource = lockAware(await openDataSource('postgres', postgres.settings));
  const { app, url } = await startHttp({
    imports: [RedisLockModule.forRoot({ connection: redis.url })],
    controllers: [StockController],
    providers: [StockService],
  });
  runs = 0;
  const client = await connectTcp(app);
  const started: Started = {
    service: app.get(StockService),
    url,
    send: (product) => lastValueFrom(client.send('take', { product })),
  };
  expect(await call(started)).toBe('sold');
  expect([runs, await stock.quantity()]).toEqual([2, 99]);
  expect(await app.get(LockService).inspect(stock.key)).toBeNull();
});
