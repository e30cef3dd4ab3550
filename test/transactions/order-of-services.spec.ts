import { expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { InjectLockService, LockService, RedisLockModule } from 'nestjs-locked';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import { usePostgres } from '../support/databases.js';
import { LockObserver } from '../support/lock-observer.js';
import { startNest } from '../support/nest-app.js';
import { openAdmin } from '../support/open-locks.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';
import { openDataSource } from './data-source.js';
import { startLocks } from './locks.js';

const redis = useRedis();
const postgres = usePostgres();

/** Their names are in the opposite order. */
@Injectable()
class Services {
  constructor(
    @InjectLockService('zoo') readonly first: LockService,
    @InjectLockService('ant') readonly last: LockService,
  ) {}
}

it.each([
  ['the one without a prefix first', {}],
  ['by their prefixes', { keyPrefix: 'app:' }],
])('a restart takes the keys of two services in one order: %s', async (_, prefix) => {
  const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings));
  const restarting = { connection: redis.url, insideTransaction: 'restart' } as const;
  const { first, last } = (
    await startNest({
      imports: [
        RedisLockModule.forRoot({ ...restarting, name: 'zoo', ...prefix }),
        RedisLockModule.forRoot({ ...restarting, name: 'ant', keyPrefix: 'billing:' }),
      ],
      providers: [Services],
    })
  ).get(Services);
  const { locks: others } = await startLocks(redis.url, prefix);
  const key = uniqueKey('stock');
  const busy = await others.acquire(key);
  const sold = dataSource.transaction(async () => {
    await last.withLock(key, async () => {});
    await first.withLock(key, async () => {});
  });
  const observed = ({ keyPrefix = 'lock:' }: { readonly keyPrefix?: string }): LockObserver =>
    new LockObserver({ admin: openAdmin(redis.url) }, keyPrefix);
  await observed(prefix).waiting(key, 1);
  expect(await observed({ keyPrefix: 'billing:' }).holder(key)).toBeNull();
  await busy.release();
  await sold;
});
