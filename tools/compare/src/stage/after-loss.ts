import { Injectable } from '@nestjs/common';
import { Locked } from 'nestjs-locked';
import type { Outcome, PeerSide, Scenario } from '../scenario.js';
import { openRedlock, type RedlockName } from './clients.js';
import { around, type Decorated, decorated, murlock, ours } from './decorated.js';
import { connect } from './redis.js';
import { type Settled, settled } from './settled.js';

/** What the work does once its lock is gone, and whether its caller got that. */
interface EndAfterLoss {
  readonly title: string;
  /** How the sentence about the workload ends. */
  readonly andThen: string;
  end(): string;
  judge(result: Settled<unknown>): Outcome;
}

/** The lock is gone before the work ends: its key is deleted, as after a failover. */
export function scenarioAfterLoss(ending: EndAfterLoss): Scenario<Decorated> {
  const { title, andThen, end, judge } = ending;
  return {
    title,
    workload: `The lock is lost (its key is deleted, as after a failover); then the work ${andThen}.`,
    async play({ lock, start }, server) {
      const redis = await connect(server);
      @Injectable()
      class StockService {
        @lock
        async take(id: string): Promise<string> {
          if (id === '42') await redis.flushall();
          return end();
        }
      }
      const stocks = await start(StockService);
      return judge(await settled(stocks.take('42'), 10_000));
    },
    peers: [
      withUsing('redlock'),
      withUsing('@sesamecare-oss/redlock'),
      murlock(({ MurLock }) => MurLock(5000, 'id'), {
        note: '`ignoreUnlockFail: true` avoids this, but hides all other failed releases.',
      }),
    ],
    ours: ours(Locked('stock:<id>')),
  };
}

function withUsing(library: RedlockName): PeerSide<Decorated> {
  return {
    library,
    settings: '`using` with the defaults and 5 s.',
    async open(server) {
      const redlock = await openRedlock(library, [await connect(server)]);
      return decorated(around((work) => redlock.using(['stock:42'], 5_000, work)));
    },
  };
}
