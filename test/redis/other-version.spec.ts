import { describe, expect, it } from '@jest/globals';
import { ourLocks } from '../foreign/our-locks.js';
import { useRedisServer } from '../support/own-redis.js';

const NAME = 'stock:42';
const KEY = `lock:{${NAME}}`;
const server = useRedisServer();

/** What docs/support.md says about two versions on one Redis. */
describe('a value that another version has written and this one cannot read', () => {
  it('in the lock: the key is taken', async () => {
    const locks = await ourLocks(server.url);
    await server.admin.set(KEY, 'v2/3f9c/7', 'PX', 30_000);
    expect(await locks.tryAcquire(NAME)).toBeNull();
    expect(await server.admin.get(KEY)).toBe('v2/3f9c/7');
  });

  it('in the queue: the waiter counts as dead', async () => {
    const locks = await ourLocks(server.url);
    await server.admin.del(KEY);
    await server.admin.zadd(`${KEY}:queue`, 1, 'v2/3f9c/7');
    const lock = await locks.acquire(NAME, { waitMs: 500 });
    expect(await server.admin.zcard(`${KEY}:queue`)).toBe(0);
    await lock.release();
  });

  it('in the fence: the next number comes from the clock of Redis', async () => {
    const locks = await ourLocks(server.url);
    const [seconds = 0] = await server.admin.time();
    await server.admin.set(`${KEY}:fence`, 'v2/1');
    const lock = await locks.acquire(NAME, { waitMs: 500 });
    expect(lock.fencingToken).toBeGreaterThanOrEqual(seconds * 1e6);
    await lock.release();
  });
});
