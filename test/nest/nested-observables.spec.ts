/** Nested locked Observables with one key. */
import { afterEach, expect, it, jest } from '@jest/globals';
import { Injectable, Logger } from '@nestjs/common';
import { Locked, LockService, RedisLockModule } from 'nestjs-locked';
import { firstValueFrom, interval, map, type Observable, of, take, toArray } from 'rxjs';
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
  innerAtOnce(id: string): Observable<string> {
    return of(`${id}: 1`);
  }

  @Locked('prices:<id>', { returns: 'observable' })
  outerAtOnce(id: string): Observable<string> {
    return this.innerAtOnce(id);
  }

  @Locked('prices:<id>', { returns: 'observable' })
  outer(id: string): Observable<string> {
    return this.inner(id);
  }
}

it.each([
  ['at its first value', 'outer', 1],
  ['at a later one', 'outer', 3],
  ['at a value that comes while it subscribes', 'outerAtOnce', 1],
] as const)('nobody is warned when a subscriber leaves %s', async (_, method, count) => {
  const app = await startNest({
    imports: [RedisLockModule.forRoot({ connection: redis.url })],
    providers: [Prices],
  });
  const warn = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => {});
  const id = uniqueKey();
  const values = await firstValueFrom(app.get(Prices)[method](id).pipe(take(count), toArray()));
  expect(values).toHaveLength(count);
  await app.get(LockService).withLock(`prices:${id}`, { waitMs: 30_000 }, () => {}); // it is free
  await new Promise((resolve) => void setImmediate(resolve)); // a warning would have been given
  expect(warn).not.toHaveBeenCalled();
});
