import { Injectable } from '@nestjs/common';
import { Locked } from 'nestjs-locked';
import type { Scenario } from '../scenario.js';
import { type Decorated, murlock, nestRedlock, ours, universal } from '../stage/decorated.js';
import { inSeconds, settled } from '../stage/settled.js';

export const scenario: Scenario<Decorated> = {
  title: 'A locked method calls another one of the same key',
  workload: 'Two locked methods of one service with the same key; one calls the other.',
  async play({ lock, start }) {
    @Injectable()
    class StockService {
      @lock
      async check(id: string): Promise<string> {
        return id;
      }

      @lock
      async take(id: string): Promise<string> {
        return this.check(id);
      }
    }
    const stocks = await start(StockService);
    const result = await settled(stocks.take('42'), 15_000);
    if (result.state === 'fulfilled') {
      return { holds: true, figure: 'joins', words: 'The inner call shares the outer lock.' };
    }
    return {
      holds: false,
      figure: `fails after ${inSeconds(result.afterMs)}`,
      words: result.state === 'rejected' ? `"${result.error.message}"` : 'There was no answer.',
    };
  },
  peers: [
    murlock(({ MurLock }) => MurLock(20_000, 'stock', 'id'), {
      settings: `\`lockKeyPrefix: 'custom'\`, so that both methods share a key. ${murlock.settings}`,
      options: { lockKeyPrefix: 'custom' },
    }),
    universal(({ Redlock }) => Redlock({ key: (id: string) => `stock:${id}` })),
    nestRedlock(({ Redlock }) => Redlock((_: unknown, id: string) => `stock:${id}`, 5_000), {
      settings: `\`@Redlock(…, 5000)\`. ${nestRedlock.settings}`,
    }),
  ],
  ours: ours(Locked('stock:<id>')),
};
