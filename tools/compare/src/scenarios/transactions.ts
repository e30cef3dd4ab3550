import { Injectable } from '@nestjs/common';
import { ClsPluginTransactional, Transactional, TransactionHost } from '@nestjs-cls/transactional';
import { ClsModule } from 'nestjs-cls';
import { Locked } from 'nestjs-locked';
import { lockAwareAdapter } from 'nestjs-locked/nestjs-cls';
import { played, type PlayedSide, type Scenario, type Side } from '../scenario.js';
import { type Decorated, ours } from '../stage/decorated.js';
import { murlock, nestjsRedis, nestRedlock, universal } from '../stage/nest-peers.js';
import { SlowDatabase, SlowDatabaseAdapter } from '../stage/slow-database.js';

const CALLS = 20;
const STOCK = 100;

interface Tool extends Decorated {
  /** What a library makes of the adapter of the database. */
  adapt?(adapter: SlowDatabaseAdapter): SlowDatabaseAdapter;
  readonly isAbove?: boolean;
}

const LOST = '✗ # of 20 sales lost';
const NONE_LOST = '✓ 0 of 20 sales lost';

/** A library in both orders. */
function inBothOrders(
  side: Side<Decorated>,
  note?: string,
  [below, above]: readonly [string, Side<Decorated>] = [LOST, side],
): PlayedSide<Tool>[] {
  const open: Side<Tool>['open'] = async (server) => ({
    ...(await above.open(server)),
    isAbove: true,
  });
  return [played(below, { ...side, note }), played(NONE_LOST, { ...above, open }, 'lock above')];
}

const patientUniversal = {
  settings: '`retryAttempts: 100`, so that no call gives up.',
  options: { retryAttempts: 100 },
} as const;

const patientMurlock = {
  settings: '`blocking: true`, `wait: 20`, so that no call gives up.',
  options: { blocking: true, wait: 20 },
} as const;

export const lockInTransaction: Scenario<Tool> = {
  title: 'The lock below `@Transactional`',
  workload:
    `${CALLS} sales at once, with \`@Transactional\` above the lock: it is released before COMMIT, ` +
    'which takes 30 ms. All sales must be done, and none lost.',
  async play({ lock, start, adapt = (adapter) => adapter, isAbove = false }) {
    const [outer, inner] = isAbove ? [lock, Transactional()] : [Transactional(), lock];
    @Injectable()
    class StockService {
      constructor(readonly host: TransactionHost<SlowDatabaseAdapter>) {}

      @outer
      @inner
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
      holds: lost === 0 && done === CALLS,
      figure: `${lost} of ${done} sales lost`,
      words: `${done} sales reported, ${database.quantity} of ${STOCK} left.${why}`,
    };
  },
  sides: [
    ...inBothOrders(
      nestRedlock(
        ({ Redlock }) =>
          Redlock((_: unknown, id: string) => `stock:${id}`, 5_000, { retryCount: -1 }),
        { settings: '`retryCount: -1`, so that no call gives up.' },
      ),
    ),
    ...inBothOrders(
      murlock(murlock.ofId, patientMurlock),
      'Its README puts the lock above; nothing checks it.',
      [
        LOST,
        murlock(
          ({ MurLock, SetParamNames }) =>
            (target, key, descriptor) => {
              SetParamNames('id')(target, key, descriptor);
              return MurLock(5000, 'id')(target, key, descriptor);
            },
          {
            ...patientMurlock,
            note: "With `@SetParamNames('id')`: it does not see the names of the method below `@Transactional`.",
          },
        ),
      ],
    ),
    ...inBothOrders(
      universal(universal.ofId, patientUniversal),
      'Its waiters ask again when the COMMIT is over, after 200 ms.',
      [NONE_LOST, universal(universal.ofId, patientUniversal)],
    ),
    ...inBothOrders(
      nestjsRedis(nestjsRedis.ofId, {
        settings: '`maxRetryAttempts: 100`, so that no call gives up.',
        options: { maxRetryAttempts: 100 },
      }),
    ),
    played('✗ 0 of 0 sales lost', {
      ...ours(
        Locked('stock:<id>'),
        "`lockAwareAdapter(adapter)`, `insideTransaction: 'reject'`, the default.",
      ),
      open: async (server) => ({
        ...(await ours(Locked('stock:<id>')).open(server)),
        adapt: lockAwareAdapter,
      }),
    }),
    played(
      NONE_LOST,
      {
        ...ours(Locked('stock:<id>')),
        settings: "`lockAwareAdapter(adapter)`, `insideTransaction: 'restart'`.",
        open: async (server) => ({
          ...(await ours(Locked('stock:<id>', { insideTransaction: 'restart' })).open(server)),
          adapt: lockAwareAdapter,
        }),
      },
      "`'restart'`",
    ),
    played(
      NONE_LOST,
      {
        ...ours(Locked('stock:<id>')),
        open: async (server) => ({
          ...(await ours(Locked('stock:<id>')).open(server)),
          isAbove: true,
        }),
      },
      'lock above',
    ),
  ],
};
