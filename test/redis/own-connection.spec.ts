/** When our own connection is opened again, and given up, over a client that is played by the test. */
import { describe, expect, it } from '@jest/globals';
import type { RedisConnection } from '../../libs/nestjs-locked/src/redis/connection/server/redis-client.js';
import { SilenceWatch } from '../../libs/nestjs-locked/src/redis/connection/silence/silence-watch.js';
import {
  OwnConnection,
  reconnectDelay,
} from '../../libs/nestjs-locked/src/redis/connection/traffic/own-connection.js';
import { FakeClock, settled } from '../support/fake-clock.js';
import { PlayedRedis } from '../support/played-redis.js';

async function start() {
  const [clock, redis] = [new FakeClock(), new PlayedRedis()];
  const nothing = (): void => {};
  const connection = new OwnConnection(
    redis.client,
    { name: 'lock:commands', clock, timeLimitMs: 1_000 },
    { ready: nothing, closed: nothing, failed: nothing },
  );
  await settled();
  expect(redis.made).toBe(1);
  return { clock, redis, connection };
}

describe('our own connection', () => {
  it('is opened without delay only once after a dead one was given up', async () => {
    const { redis, connection } = await start();
    connection.abandon();
    expect(redis.override.retryStrategy()).toBe(0);
    expect(redis.override.retryStrategy()).toBe(reconnectDelay(1));
  });

  it('logs in with the current password of the client', async () => {
    const { redis } = await start();
    Object.assign(redis.client.options, { username: 'me', password: 'new' });
    redis.override.retryStrategy();
    expect(redis.options).toMatchObject({ username: 'me', password: 'new' });
  });

  it('is opened again within a second after ioredis has given up', async () => {
    const { clock, redis } = await start();
    redis.emit('end');
    await clock.advance(1_000);
    expect(redis.made).toBe(2);
  });

  it('is not opened again after it was closed', async () => {
    const { clock, redis, connection } = await start();
    redis.emit('end');
    connection.close();
    redis.emit('end');
    await clock.advance(5_000);
    expect(redis.made).toBe(1);
  });
});

describe('a server that is silent', () => {
  /** How long each connection, one after the other, may be silent. */
  async function patience(limitMs: number): Promise<readonly number[]> {
    const [clock, redis] = [new FakeClock(), new PlayedRedis()];
    const silentMs: number[] = [];
    let since = 0;
    redis.stream.destroy = () => {
      silentMs.push(clock.now() - since);
      redis.emit('close');
    };
    new SilenceWatch(redis as unknown as RedisConnection, clock, limitMs);
    redis.commandQueue.length = 1;
    for (let i = 0; i < 4; i++) {
      since = clock.now();
      redis.emit('connect');
      await clock.advance(20_000);
    }
    return silentMs;
  }

  it('is one that sends nothing, not one that always has some command unanswered', async () => {
    const [clock, redis] = [new FakeClock(), new PlayedRedis()];
    const leftAt: number[] = [];
    let arrives = (): void => {};
    Object.assign(redis.stream, {
      on: (_event: string, listener: () => void) => (arrives = listener),
      destroy: () => leftAt.push(clock.now()),
    });
    new SilenceWatch(redis as unknown as RedisConnection, clock, 1_000);
    redis.commandQueue.length = 1;
    redis.emit('connect');
    for (let i = 0; i < 10; i++) {
      await clock.advance(900);
      arrives();
    }
    expect(leftAt).toEqual([]);
    const since = clock.now();
    await clock.advance(5_000);
    expect(leftAt).toEqual([since + 1_000]);
  });

  it.each([
    [1_000, [1_000, 2_000, 4_000, 4_000]],
    [2_000, [2_000, 4_000, 5_000, 5_000]],
    [6_000, [6_000, 6_000, 6_000, 6_000]],
  ])('is left after %d ms at first, and has longer on the next connections', async (ms, all) => {
    expect(await patience(ms)).toEqual(all);
  });
});
