import { Injectable } from '@nestjs/common';
import { Locked } from 'nestjs-locked';
import type { Outcome, Scenario } from '../scenario.js';
import { type Redlock, redlockSide } from '../stage/clients.js';
import { around, type Decorated, decorated, murlock, ours } from '../stage/decorated.js';
import { connect } from '../stage/redis.js';
import { type Settled, settled } from '../stage/settled.js';

/** What the work does once its lock is gone, and whether its caller got that. */
interface EndAfterLoss {
  readonly title: string;
  /** How the sentence about the workload ends. */
  readonly andThen: string;
  end(): string;
  judge(result: Settled<unknown>): Outcome;
}

class OutOfStock extends Error {}

export const businessError = scenarioAfterLoss({
  title: 'A lost lock, and the work throws',
  andThen: 'throws its own error',
  end() {
    throw new OutOfStock('none left');
  },
  judge(result) {
    if (result.state !== 'rejected') {
      const words = `The error of the work was replaced, ${result.afterMs} ms later.`;
      return { holds: false, figure: result.state, words };
    }
    const { error, afterMs } = result;
    const holds = error instanceof OutOfStock;
    return {
      holds,
      figure: error.constructor.name,
      words: holds
        ? 'The caller got the error of the work.'
        : `The error of the work was replaced by "${error.message}", ${afterMs} ms later.`,
    };
  },
});

export const resultAfterLoss = scenarioAfterLoss({
  title: 'A lost lock, and the work succeeds',
  andThen: 'returns',
  end: () => 'done',
  judge(result) {
    if (result.state === 'fulfilled') {
      return { holds: true, figure: 'the result', words: 'The caller got the result.' };
    }
    const { afterMs } = result;
    return result.state === 'rejected'
      ? {
          holds: false,
          figure: result.error.constructor.name,
          words: `The work was done; the caller got "${result.error.message}" after ${afterMs} ms.`,
        }
      : {
          holds: false,
          figure: 'nothing',
          words: `The work was done, and the caller had no answer after ${afterMs} ms.`,
        };
  },
});

/** The lock is gone before the work ends: its key is deleted, as after a failover. */
function scenarioAfterLoss({ title, andThen, end, judge }: EndAfterLoss): Scenario<Decorated> {
  const withUsing = (redlock: Redlock): Decorated =>
    decorated(around((work) => redlock.using(['stock:42'], 5_000, work)));
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
      redlockSide('redlock', '`using` with the defaults and 5 s.', withUsing),
      redlockSide('@sesamecare-oss/redlock', '`using` with the defaults and 5 s.', withUsing),
      murlock(({ MurLock }) => MurLock(5000, 'id'), {
        note: '`ignoreUnlockFail: true` avoids this, but hides all other failed releases.',
      }),
    ],
    ours: ours(Locked('stock:<id>')),
  };
}
