/** Locked Observables inside of one another, with one key. */
import { afterEach, expect, it, jest } from '@jest/globals';
import { Injectable, Logger } from '@nestjs/common';
import { Locked, LockService, RedisLockModule } from 'nestjs-locked';
import { firstValueFrom, interval, map, type Observable, take, toArray } from 'rxjs';
import { startNest } from '../support/nest-app.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const redis = useRedis();
afterEach(() => {
  jest.restoreAllMocks();
});

@Injectable()
class Prices {
  @Locked('prices:<id>', { returns: 'observable' })
  inner(id: string): Observable<string> {
    return interval(1).pipe(map((price) => `${id}: ${price}`));
  }

  @Locked('prices:<id>', { returns: 'observable' })
  outer(id: string): Observable<string> {
    return this.inner(id);
  }
}

it.each([
  ['at its first value', 1],
  ['at a later one', 3],
])('nobody is warned when a subscriber leaves %s', async (_, count) => {
  const app = await startNest({
    imports: [RedisLockModule.forRoot({ connection: redis.url })],
    providers: [Prices],
  });
  const warn = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => {});
  const id = uniqueKey();
  const values = await firstValueFrom(app.get(Prices).outer(id).pipe(take(count), toArray()));
  expect(values).toHaveLength(count);
  await app.get(LockService).withLock(`prices:${id}`, { waitMs: 30_000 }, () => {}); // it is free
  expect(warn).not.toHaveBeenCalled();
});
