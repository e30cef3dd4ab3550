import { Injectable } from '@nestjs/common';
import { Locked } from 'nestjs-locked';
import { defer, finalize, from, lastValueFrom, Observable, timer } from 'rxjs';
import type { Scenario } from '../scenario.js';
import {
  type Decorated,
  murlock,
  nestjsRedis,
  nestRedlock,
  ours,
  universal,
} from '../stage/decorated.js';
import { Inside } from '../stage/inside.js';

/** Longer than it takes a peer to ask again. */
const WORK_MS = 1_500;

export const scenario: Scenario<Decorated> = {
  title: 'A method that returns an Observable',
  workload:
    'Two calls for one key; the work begins when the Observable is subscribed to and takes 1.5 s.',
  async play({ lock, start }) {
    const inside = new Inside();
    /** Begins with the subscription and ends with the stream. */
    const work = (): Observable<number> =>
      defer(() => {
        inside.enter();
        return timer(WORK_MS).pipe(finalize(() => inside.leave()));
      });
    @Injectable()
    class StockService {
      @lock
      take(id: string): Observable<number> {
        return id === '42' ? work() : timer(0);
      }
    }
    const stocks = await start(StockService);
    /** Some peers turn the Observable into a Promise of one: that is given its chance. */
    const call = async (): Promise<void> => {
      const result = (await (stocks.take('42') as unknown)) as Observable<number>;
      await lastValueFrom(from(result));
    };
    await Promise.allSettled([call(), call()]);
    const holds = inside.most === 1;
    return {
      holds,
      figure: `${inside.most} inside at once`,
      words: holds
        ? 'The lock is taken at the subscription and kept until the stream ends.'
        : 'The lock was released before the subscription.',
    };
  },
  peers: [
    nestjsRedis(({ Redlock }) => Redlock('stock', 5000)),
    nestRedlock(({ Redlock }) => Redlock('stock')),
    universal(({ Redlock }) => Redlock({ key: 'stock' })),
    murlock(({ MurLock }) => MurLock(5000, 'id')),
  ],
  ours: ours(Locked('stock:<id>')),
};
