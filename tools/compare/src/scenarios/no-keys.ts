import { Injectable } from '@nestjs/common';
import { Locked } from 'nestjs-locked';
import type { Scenario } from '../scenario.js';
import { openRedlock } from '../stage/clients.js';
import { around, type Decorated, decorated, nestRedlock, ours } from '../stage/decorated.js';
import { Inside } from '../stage/inside.js';
import { connect } from '../stage/redis.js';

export const scenario: Scenario<Decorated> = {
  title: 'An empty list of keys',
  workload: 'Two concurrent calls with an empty list of keys.',
  async play({ lock, start }) {
    const inside = new Inside();
    @Injectable()
    class StockService {
      @lock
      async take(ids: string[]): Promise<void> {
        await inside.work(100 + ids.length);
      }
    }
    const stocks = await start(StockService);
    const calls = await Promise.allSettled([stocks.take([]), stocks.take([])]);
    const refused = calls.find((call) => call.status === 'rejected');
    return {
      holds: inside.entered === 0,
      figure: inside.entered === 0 ? 'refused' : `${inside.most} inside at once`,
      words: refused ? `"${(refused.reason as Error).message}"` : 'The work ran without any lock.',
    };
  },
  peers: [
    {
      library: 'redlock',
      settings: '`acquire([])` with the defaults.',
      async open(server) {
        const redlock = await openRedlock('redlock', [await connect(server)]);
        const hold = async (work: () => Promise<void>, ids: string[]): Promise<void> => {
          const held = await redlock.acquire(ids, 5_000);
          await work();
          await held.release();
        };
        return decorated(around(hold));
      },
    },
    nestRedlock(({ Redlock }) =>
      Redlock((_: unknown, ids: string[]) => ids.map((id) => `stock:${id}`)),
    ),
  ],
  ours: ours(Locked('stock:<ids[]>')),
};
