import { Injectable } from '@nestjs/common';
import { ClsPluginTransactional, Transactional, TransactionHost } from '@nestjs-cls/transactional';
import { ClsModule } from 'nestjs-cls';
import { Locked } from 'nestjs-locked';
import { lockAwareAdapter } from 'nestjs-locked/nestjs-cls';
import type { Scenario } from '../scenario.js';
import { type Decorated, murlock, nestRedlock, ours } from '../stage/decorated.js';
import { SlowDatabase, SlowDatabaseAdapter } from '../stage/slow-database.js';

const CALLS = 20;
const STOCK = 100;

interface Tool extends Decorated {
  /** What a library makes of the adapter of the database. */
  adapt?(adapter: SlowDatabaseAdapter): SlowDatabaseAdapter;
}

export const scenario: Scenario<Tool> = {
  title: 'The lock inside the transaction',
  workload:
    `${CALLS} sales at once, with \`@Transactional\` above the lock: it is released before COMMIT, ` +
    'which takes 30 ms.',
  async play({ lock, start, adapt = (adapter) => adapter }) {
    @Injectable()
    class StockService {
      constructor(readonly host: TransactionHost<SlowDatabaseAdapter>) {}

      @Transactional()
      @lock
      async take(id: string): Promise<void> {
        const left = await this.host.tx.read();
        if (id === '42') this.host.tx.write(left - 1);
      }
    }
    const database = new SlowDatabase();
    database.quantity = STOCK;
    const adapter = adapt(new SlowDatabaseAdapter(database));
    const stocks = await start(
      StockService,
      ClsModule.forRoot({ plugins: [new ClsPluginTransactional({ adapter })] }),
    );
    const calls = await Promise.allSettled(Array.from({ length: CALLS }, () => stocks.take('42')));
    const refused = calls.filter((call) => call.status === 'rejected');
    const done = CALLS - refused.length;
    const lost = database.quantity - (STOCK - done);
    const [first] = refused;
    const why = first === undefined ? '' : ` The others: "${(first.reason as Error).message}"`;
    return {
      holds: lost === 0,
      figure: `${lost} of ${done} sales lost`,
      words: `${done} sales reported, ${database.quantity} of ${STOCK} left.${why}`,
    };
  },
  peers: [
    nestRedlock(
      ({ Redlock }) =>
        Redlock((_: unknown, id: string) => `stock:${id}`, 5_000, { retryCount: -1 }),
      {
        settings: '`retryCount: -1`, so that no call gives up.',
        note: 'The other order loses nothing, but is not documented.',
      },
    ),
    murlock(({ MurLock }) => MurLock(5000, 'id'), {
      settings: '`blocking: true`, `wait: 20`, so that no call gives up.',
      note: 'Its README gives the right order; nothing checks it.',
      options: { blocking: true, wait: 20 },
    }),
  ],
  ours: {
    settings:
      "`lockAwareAdapter(adapter)`, `insideTransaction: 'restart'`. The default, `'reject'`, refuses all calls.",
    open: async (server) => ({
      ...(await ours(Locked('stock:<id>', { insideTransaction: 'restart' })).open(server)),
      adapt: lockAwareAdapter,
    }),
  },
};
