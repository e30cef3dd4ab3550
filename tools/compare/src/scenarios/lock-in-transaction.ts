import { Injectable } from '@nestjs/common';
import { ClsPluginTransactional, Transactional, TransactionHost } from '@nestjs-cls/transactional';
import { ClsModule } from 'nestjs-cls';
import { Locked, RedisLockModule } from 'nestjs-locked';
import { lockAwareAdapter } from 'nestjs-locked/nestjs-cls';
import type { Outcome, Scenario } from '../scenario.js';
import { startApplication } from '../stage/application.js';
import { nestRedlock, nestRedlockModule } from '../stage/peer-modules.js';
import { RedisServer } from '../stage/redis.js';
import { type Sale, SlowDatabase, SlowDatabaseAdapter } from '../stage/slow-database.js';

const CALLS = 20;

/** As many sales at once as there are calls, of a stock of a hundred. */
async function sell(database: SlowDatabase, take: (id: string) => Promise<void>): Promise<Outcome> {
  database.quantity = 100;
  const calls = await Promise.allSettled(Array.from({ length: CALLS }, () => take('42')));
  const refused = calls.filter(({ status }) => status === 'rejected');
  const done = CALLS - refused.length;
  const lost = database.quantity - (100 - done);
  const [first] = refused as PromiseRejectedResult[];
  const why = first === undefined ? '' : ` The others: "${(first.reason as Error).message}"`;
  return {
    holds: lost === 0,
    figure: `${lost} of ${done} sales lost`,
    words: `${done} sales reported, ${database.quantity} of 100 left.${why}`,
  };
}

export const scenario: Scenario = {
  title: 'The lock inside the transaction',
  workload:
    `${CALLS} sales at once, with \`@Transactional\` above the lock: it is released before COMMIT, ` +
    'which takes 30 ms.',
  peers: [
    {
      library: '@anchan828/nest-redlock',
      settings: '`retryCount: -1`, so that no call gives up.',
      note: 'The other order loses nothing, but is not documented.',
      async run() {
        const { Redlock } = nestRedlock();
        const module = await nestRedlockModule(await RedisServer.start());
        @Injectable()
        class StockService {
          constructor(readonly host: TransactionHost<SlowDatabaseAdapter>) {}

          @Transactional()
          @Redlock((_: StockService, id: string) => `stock:${id}`, 5_000, { retryCount: -1 })
          async take(_id: string): Promise<void> {
            await sale(this.host.tx);
          }
        }
        const database = new SlowDatabase();
        const app = await startApplication({
          imports: [module, transactions(new SlowDatabaseAdapter(database))],
          providers: [StockService],
        });
        return sell(database, (id) => app.get(StockService).take(id));
      },
    },
    {
      library: 'murlock',
      settings: '`blocking: true`, `wait: 20`, so that no call gives up.',
      note: 'Its README gives the right order; nothing checks it.',
      async run() {
        const { MurLock, MurLockModule } = await import('murlock');
        const server = await RedisServer.start();
        @Injectable()
        class StockService {
          constructor(readonly host: TransactionHost<SlowDatabaseAdapter>) {}

          @Transactional()
          @MurLock(5000, 'id')
          async take(id: string): Promise<void> {
            if (id === '42') await sale(this.host.tx);
          }
        }
        const database = new SlowDatabase();
        const app = await startApplication({
          imports: [
            MurLockModule.forRoot({
              redisOptions: { url: server.url },
              wait: 20,
              maxAttempts: 3,
              logLevel: 'error',
              blocking: true,
            }),
            transactions(new SlowDatabaseAdapter(database)),
          ],
          providers: [StockService],
        });
        return sell(database, (id) => app.get(StockService).take(id));
      },
    },
  ],
  ours: {
    settings:
      "`lockAwareAdapter(adapter)`, `insideTransaction: 'restart'`. The default, `'reject'`, refuses all calls.",
    async run() {
      const { url } = await RedisServer.start();
      @Injectable()
      class StockService {
        constructor(readonly host: TransactionHost<SlowDatabaseAdapter>) {}

        @Transactional()
        @Locked('stock:<id>', { insideTransaction: 'restart' })
        async take(id: string): Promise<void> {
          if (id === '42') await sale(this.host.tx);
        }
      }
      const database = new SlowDatabase();
      const app = await startApplication({
        imports: [
          RedisLockModule.forRoot({ connection: url }),
          transactions(lockAwareAdapter(new SlowDatabaseAdapter(database))),
        ],
        providers: [StockService],
      });
      return sell(database, (id) => app.get(StockService).take(id));
    },
  },
};

async function sale(tx: Sale): Promise<void> {
  const left = await tx.read();
  tx.write(left - 1);
}

function transactions(adapter: SlowDatabaseAdapter) {
  return ClsModule.forRoot({ plugins: [new ClsPluginTransactional({ adapter })] });
}
