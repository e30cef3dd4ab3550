import { Inject, Injectable } from '@nestjs/common';
import { Locked } from 'nestjs-locked';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Scenario } from '../scenario.js';
import { type Decorated, decorated, type LockDecorator, ours } from '../stage/decorated.js';
import { Inside } from '../stage/inside.js';

const WORK_MS = 1_500;

export const scenario: Scenario<Decorated> = {
  title: 'A waiter gives up',
  workload: `One call works for ${WORK_MS} ms. A second waits 200 ms and gives up; then a third comes.`,
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
    const holder = stocks.take('42');
    await sleep(50);
    await stocks.take('42').catch(() => {}); // gives up after 200 ms
    await stocks.take('42').catch(() => {});
    await holder;
    const holds = inside.most === 1;
    return {
      holds,
      figure: `${inside.most} inside at once`,
      words: holds
        ? 'The call that gives up leaves the lock alone.'
        : 'The call that gave up deleted the lock of the holder, and the third got in.',
    };
  },
  peers: [
    {
      library: 'nestjs-simple-redis-lock',
      settings: "`@RedisLock('stock', 60_000, 50, 4)`: four tries, 50 ms apart.",
      async open({ port }) {
        const { RedisLock, RedisLockModule, RedisLockService } =
          await import('nestjs-simple-redis-lock');
        const { RedisModule } = await import('@liaoliaots/nestjs-redis');
        const lock: LockDecorator = (target, name, descriptor) => {
          Inject(RedisLockService)(target, 'lockService'); // the decorator expects it there
          return RedisLock('stock', 60_000, 50, 4)(target, name, descriptor);
        };
        return decorated(
          lock,
          RedisModule.forRoot({ config: { host: '127.0.0.1', port } }) as never,
          RedisLockModule.register({}) as never,
        );
      },
    },
  ],
  ours: ours(Locked('stock:<id>', { waitMs: 200 }), '`waitMs: 200`.'),
};
