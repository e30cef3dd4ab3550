import { expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Cron, ScheduleModule } from '@nestjs/schedule';
import { Locked, LockService, RedisLockModule } from 'nestjs-locked';
import { eventually } from '../support/eventually.js';
import { startNest } from '../support/nest-app.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const redis = useRedis();
const ONCE = { waitMs: 0, onBusy: 'skip', holdAtLeastMs: 60_000 } as const;
const [above, below] = [uniqueKey('above'), uniqueKey('below')];

@Injectable()
class Jobs {
  readonly runs: string[] = [];

  @Cron('* * * * * *')
  @Locked(above, ONCE)
  async cronAbove(): Promise<void> {
    this.runs.push('above');
  }

  @Locked(below, ONCE)
  @Cron('* * * * * *')
  async cronBelow(): Promise<void> {
    this.runs.push('below');
  }
}

it('a method with @Cron runs under its lock, whichever decorator comes first', async () => {
  const app = await startNest({
    imports: [RedisLockModule.forRoot({ connection: redis.url }), ScheduleModule.forRoot()],
    providers: [Jobs],
  });
  const { runs } = app.get(Jobs);
  await eventually(() => expect(runs.toSorted()).toEqual(['above', 'below']));
  // The keys are still taken, so that a second later nothing runs.
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  expect(runs).toHaveLength(2);
  expect(await app.get(LockService).tryAcquire(above)).toBeNull();
});
