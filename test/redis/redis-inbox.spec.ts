/** A subscription, on a fake clock, over a connection whose server is played by the test. */
import { describe, expect, it } from '@jest/globals';
import { RedisInbox } from '../../libs/nestjs-locked/src/redis/connection/traffic/redis-inbox.js';
import { FakeClock, settled } from '../support/fake-clock.js';
import { PlayedRedis } from '../support/played-redis.js';

async function start(subscribe = async (): Promise<unknown> => 1) {
  const [clock, redis] = [new FakeClock(), new PlayedRedis()];
  redis.subscribe = subscribe;
  const lost: string[] = [];
  const messages: string[] = [];
  const inbox = new RedisInbox(
    redis.client,
    {
      ...{ name: 'lock:inbox:me', clock, timeLimitMs: 1_000, pingEveryMs: 1_000_000 },
      channel: async () => 'lock:inbox:me',
    },
    {
      subscribed: () => {},
      lost: ({ message }) => void lost.push(message),
      replaced: () => {},
      failed: () => {},
      published: () => {},
      message: (text) => void messages.push(text),
    },
  );
  await settled();
  return { clock, redis, inbox, lost, messages };
}

const refusal = new Error('NOPERM No permissions to access a channel');

describe('the inbox', () => {
  it('gets only what was published to its channel', async () => {
    const { redis, messages } = await start();
    redis.emit('message', 'lock:inbox:other', 'to others');
    redis.emit('message', 'lock:inbox:me', 'to me');
    expect(messages).toEqual(['to me']);
  });

  it('is subscribed on a new connection a second after the subscription was refused', async () => {
    const { clock, redis, inbox } = await start(() => Promise.reject(refusal));
    expect(inbox.ready).toBe(false);
    redis.subscribe = async () => 1;
    await clock.advance(999);
    expect(redis.made).toBe(1);
    await clock.advance(1);
    expect(redis.made).toBe(2);
    expect(inbox.ready).toBe(true);
  });

  it('keeps the connection on which it is subscribed, although an earlier one was refused', async () => {
    const { clock, redis, inbox, lost } = await start(() => Promise.reject(refusal));
    redis.subscribe = async () => 1;
    redis.disconnect(true);
    await settled();
    expect(inbox.ready).toBe(true);
    await clock.advance(5_000);
    expect(redis.made).toBe(2);
    expect(lost).toEqual([]);
  });

  it('reports the latest reason for its loss, and none that has passed', async () => {
    const { redis, inbox, lost } = await start(() => Promise.reject(refusal));
    expect(inbox.loss.message).toContain(refusal.message);
    redis.subscribe = async () => 1;
    inbox.reconnect();
    await settled();
    redis.disconnect();
    expect(lost).toEqual(['the subscription is lost: the connection was closed']);
  });

  it('answers as long as the server sends anything on its connection', async () => {
    const { redis, inbox } = await start();
    await expect(inbox.answers()).resolves.toBe(true);
    redis.ping = () => Promise.reject(Object.assign(new Error('NOPERM'), { name: 'ReplyError' }));
    await expect(inbox.answers()).resolves.toBe(true);
  });

  it('does not answer if the connection has ended, is silent, or was replaced meanwhile', async () => {
    const { clock, redis, inbox } = await start();
    redis.ping = () => Promise.reject(new Error('Connection is closed.'));
    await expect(inbox.answers()).resolves.toBe(false);
    redis.ping = () => new Promise(() => {});
    const silent = inbox.answers();
    await clock.advance(1_000);
    await expect(silent).resolves.toBe(false);
    redis.ping = async () => {
      redis.disconnect(true);
      return 'PONG';
    };
    await expect(inbox.answers()).resolves.toBe(false);
  });

  it('sends nothing when it was closed after a refusal', async () => {
    const { clock, redis, inbox } = await start(() => Promise.reject(refusal));
    inbox.close();
    await clock.advance(5_000);
    expect(redis.made).toBe(1);
    expect(clock.timers).toBe(0);
  });
});
