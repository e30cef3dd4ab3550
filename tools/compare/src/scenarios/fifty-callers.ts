import { Injectable } from '@nestjs/common';
import { Locked } from 'nestjs-locked';
import type { Scenario } from '../scenario.js';
import { withMutex } from '../stage/clients.js';
import {
  around,
  type Decorated,
  decorated,
  murlock,
  nestjsRedis,
  nestRedlock,
  ours,
  universal,
} from '../stage/decorated.js';
import { Inside } from '../stage/inside.js';
import { connect } from '../stage/redis.js';
import { inSeconds } from '../stage/settled.js';

const CALLERS = 50;
const WORK_MS = 20;

export const scenario: Scenario<Decorated> = {
  title: 'Fifty callers for one key',
  workload: `${CALLERS} calls for one key arrive at once in one process; each works for ${WORK_MS} ms.`,
  async play({ lock, start }) {
    const inside = new Inside();
    @Injectable()
    class StockService {
      @lock
      async take(id: string): Promise<void> {
        if (id === '42') await inside.work(WORK_MS);
      }
    }
    const stocks = await start(StockService);
    const from = performance.now();
    const calls = await Promise.allSettled(
      Array.from({ length: CALLERS }, () => stocks.take('42')),
    );
    const took = inSeconds(performance.now() - from);
    const served = calls.filter(({ status }) => status === 'fulfilled').length;
    return {
      holds: served === CALLERS && inside.most === 1,
      figure: `${served} of ${CALLERS} served`,
      words: `At most ${inside.most} inside; over after ${took}.`,
    };
  },
  peers: [
    murlock(({ MurLock }) => MurLock(5000, 'id'), {
      note: '`blocking: true` waits without limit instead.',
    }),
    nestjsRedis(({ Redlock }) => Redlock('stock', 5000)),
    universal(({ Redlock }) => Redlock({ key: (id: string) => `stock:${id}` })),
    nestRedlock(({ Redlock }) => Redlock((_: unknown, id: string) => `stock:${id}`)),
    {
      library: 'redis-semaphore',
      settings: 'README: a `Mutex` for each call, defaults (a try every 10 ms for 10 s).',
      async open(server) {
        const redis = await connect(server);
        return decorated(around((work, id: string) => withMutex(redis, `stock:${id}`, work)));
      },
    },
  ],
  ours: ours(Locked('stock:<id>'), 'The defaults (`waitMs: 10_000`).'),
};
