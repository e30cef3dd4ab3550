import { Injectable } from '@nestjs/common';
import { Locked } from 'nestjs-locked';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Scenario } from '../scenario.js';
import { type Decorated, murlock, nestjsRedis, ours } from '../stage/decorated.js';
import { Inside } from '../stage/inside.js';

const WORK_MS = 1_500;

export const scenario: Scenario<Decorated> = {
  title: 'Work that takes longer than the lock lasts',
  workload: `Two calls for one key, 50 ms apart. Each works for ${WORK_MS} ms, longer than the lock lasts.`,
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
    const first = stocks.take('42');
    await sleep(50);
    const calls = await Promise.allSettled([first, stocks.take('42')]);
    const failed = calls.filter(({ status }) => status === 'rejected').length;
    return {
      holds: inside.most === 1 && failed === 0,
      figure: `${inside.most} inside at once`,
      words: `${inside.entered} worked, ${failed} of 2 callers got an error.`,
    };
  },
  peers: [
    nestjsRedis(({ Redlock }) => Redlock('stock'), {
      settings: 'The default of `@Redlock`, 100 ms. The decorator does not renew it.',
      note: '`withLock` of its service renews if it is given an `extensionThresholdMs`.',
    }),
    murlock(({ MurLock }) => MurLock(500, 'id'), {
      settings: `\`@MurLock(500)\`. ${murlock.settings}`,
      note: 'Its README calls this number the waiting time of a caller.',
    }),
  ],
  ours: ours(
    Locked('stock:<id>', { leaseMs: 500 }),
    '`leaseMs: 500`, the shortest there is. It is renewed while the work runs.',
  ),
};
