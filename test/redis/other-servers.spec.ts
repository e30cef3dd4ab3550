/** What the start says of servers that are nearly Redis. A proxy makes a real one answer like them. */
import { describe, expect, it } from '@jest/globals';
import { LockConfigError, LockStoreError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { systemClock } from '../../libs/nestjs-locked/src/core/time/clock.js';
import { openRedis } from '../../libs/nestjs-locked/src/redis/connection/server/open-redis.js';
import { RedisLockStore } from '../../libs/nestjs-locked/src/redis/redis-lock-store.js';
import { afterTest } from '../support/after-test.js';
import { openLocks } from '../support/open-locks.js';
import { useRedisServer } from '../support/own-redis.js';
import { type Instead, startPlayingProxy } from '../support/playing-proxy.js';
import { StoreEvents } from '../support/store-events.js';
import { uniqueKey } from '../support/unique-key.js';

const server = useRedisServer();

/** @returns why it does not start */
async function refusal(instead: Instead): Promise<Error> {
  const redis = openRedis(await startPlayingProxy(server.port, instead));
  const store = new RedisLockStore({
    client: redis.client,
    clock: systemClock,
    keyPrefix: 'lock:',
    leaseMs: 3_000,
    startMs: 1_500,
    closeClient: () => redis.close(),
  });
  afterTest(() => store.close());
  const error: unknown = await store.open(new StoreEvents()).catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(Error);
  return error as Error;
}

/** Commands of these names are not known. */
const unknown =
  (...names: string[]): Instead =>
  ([name = '', ...args]) =>
    names.includes(name.toUpperCase()) ? [`NO${name}`, ...args] : undefined;

const isCalled = ([name = '']: readonly string[], wanted: string) => name.toUpperCase() === wanted;

describe('the start', () => {
  it('refuses a server whose INFO says that it is an active replica of KeyDB', async () => {
    const info = 'redis_version:6.3.4\r\nrole:active-replica\r\n';
    const error = await refusal((args) => (isCalled(args, 'INFO') ? ['ECHO', info] : undefined));
    expect(error).toBeInstanceOf(LockConfigError);
    expect(error.message).toContain('is an active replica');
  });

  it.each(['SUBSCRIBE', 'EVAL', 'INFO', 'SCRIPT'])(
    'fails behind a proxy that does not know %s',
    async (name) => {
      const error = await refusal(unknown(name, `${name}SHA`));
      expect(error).toBeInstanceOf(LockStoreError);
      expect(error.message).toContain('unknown command');
    },
  );

  it('fails if scripts count no subscribers, because waiters would be taken for dead', async () => {
    const error = await refusal(([name = '', ...args]) =>
      /^eval(sha)?$/i.test(name) && args.some((arg) => /^probe \d+$/.test(arg))
        ? ['EVAL', 'return 0', '0']
        : undefined,
    );
    expect(error).toBeInstanceOf(LockStoreError);
    expect(error.message).toContain('receive a message in the inbox');
  });

  it('needs no CONFIG, which managed services refuse', async () => {
    const sent = new Set<string>();
    const known = unknown('CONFIG');
    const url = await startPlayingProxy(server.port, (args) => {
      sent.add((args[0] ?? '').toUpperCase());
      return known(args);
    });
    const { engine, events } = await openLocks(url);
    const other = await openLocks(url);
    const key = uniqueKey();
    const lock = await engine.acquire(key);
    const next = other.engine.acquire(key);
    await lock.release();
    await (await next).release();
    expect(events).toEqual([]);
    expect(sent.has('CONFIG')).toBe(false);
  });
});
