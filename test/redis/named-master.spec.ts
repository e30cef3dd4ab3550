/** A failover between the answer of a sentinel and the subscription to it. */
import { describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { Redis as Redis5 } from 'ioredis5';
import { setTimeout as sleep } from 'node:timers/promises';
import { systemClock } from '../../libs/nestjs-locked/src/core/time/clock.js';
import type { RedisClient } from '../../libs/nestjs-locked/src/redis/connection/server/redis-client.js';
import { OwnConnection } from '../../libs/nestjs-locked/src/redis/connection/traffic/own-connection.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { FakeSentinel } from '../support/fake-sentinel.js';
import { keepClient } from '../support/keep-client.js';
import { connectionsNamed } from '../support/open-redis-store.js';
import { useRedisServer } from '../support/own-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const versions: readonly (readonly [string, (...sentinels: FakeSentinel[]) => RedisClient])[] = [
  ['ioredis 5', (...sentinels) => keepClient(new Redis5(optionsFor(sentinels)))],
  ['ioredis 6', (...sentinels) => keepClient(new Redis(optionsFor(sentinels)))],
];

describe.each(versions)('a connection of %s through sentinels', (_, clientOf) => {
  // Both say that they are masters, as the old one does until the sentinels reach it.
  const old = useRedisServer();
  const next = useRedisServer();

  it('leaves a master, once, that was replaced before we listened to its sentinel', async () => {
    const sentinel = await FakeSentinel.start(old.port);
    sentinel.onSubscribe = () => (sentinel.master = next.port);
    const { name } = connect(clientOf(sentinel));
    await eventually(async () => {
      expect(await connectionsNamed(name, old.admin)).toHaveLength(0);
      // For the first connection and the second, and once more for each of them.
      expect(sentinel.answers).toBe(4);
    });
    expect(sentinel.served[0]).toBe(`named ${old.port}`);
    expect(sentinel.served).toContain('subscribed');
    await expectToStay(name, next.admin);
  });

  it('leaves a master that was replaced while a sentinel was away', async () => {
    const sentinel = await FakeSentinel.start(old.port);
    const other = await FakeSentinel.start(old.port);
    const { name } = connect(clientOf(sentinel, other));
    await eventually(async () => {
      expect(await connectionsNamed(name, old.admin)).toHaveLength(1);
      expect(sentinel.answers).toBe(2);
      expect(other.served).toContain('subscribed');
    });
    sentinel.master = next.port;
    other.master = next.port;
    other.cutListeners();
    await eventually(async () => expect(await connectionsNamed(name, next.admin)).toHaveLength(1));
  });

  it('stays if another sentinel has always named another master', async () => {
    const sentinel = await FakeSentinel.start(old.port);
    const other = await FakeSentinel.start(next.port);
    const { name } = connect(clientOf(sentinel, other));
    await eventually(() => {
      expect(other.served).toContain('subscribed');
      expect(sentinel.answers).toBe(2);
    });
    await expectToStay(name, old.admin);
    expect(other.answers).toBe(0);
  });

  it('does not leave it a second time if only one sentinel names another master', async () => {
    const sentinel = await FakeSentinel.start(old.port);
    const other = await FakeSentinel.start(next.port);
    const { name } = connect(clientOf(sentinel, other));
    const settledOn = async (isNew: (id: string | undefined) => boolean): Promise<string> =>
      eventually(async () => {
        const ids = await connectionsNamed(name, old.admin);
        expect(ids).toHaveLength(1);
        expect(ids.every(isNew)).toBe(true);
        expect(other.listeners).toBe(1);
        return ids[0] as string;
      });
    const first = await settledOn(() => true);
    other.cutListeners();
    const second = await settledOn((id) => id !== first);
    expect(other.answers).toBe(1);
    const before = other.served.length;
    other.cutListeners();
    await eventually(() => expect(other.served.length).toBeGreaterThan(before));
    await expectToStay(name, old.admin);
    expect(await connectionsNamed(name, old.admin)).toEqual([second]);
    expect(other.answers).toBe(1);
  });

  it('leaves a master a second time if it became the master again', async () => {
    const sentinel = await FakeSentinel.start(old.port);
    const { name } = connect(clientOf(sentinel));
    /** Queries: one for each connection, one more when it subscribed to the sentinel, and one after each cut. */
    const isAt = (admin: Redis, answers: number): Promise<void> =>
      eventually(async () => {
        expect(await connectionsNamed(name, admin)).toHaveLength(1);
        expect(sentinel.answers).toBe(answers);
      });
    const failOverUnheard = (port: number): void => {
      sentinel.master = port;
      sentinel.cutListeners();
    };
    await isAt(old.admin, 2);
    failOverUnheard(next.port);
    await isAt(next.admin, 5);
    sentinel.master = old.port;
    const [id = ''] = await connectionsNamed(name, next.admin);
    await next.admin.client('KILL', 'ID', id);
    await isAt(old.admin, 7);
    failOverUnheard(next.port);
    await isAt(next.admin, 10);
  });

  it.each(['silence', 'cut'] as const)('stays if the second query meets %s', async (meets) => {
    const sentinel = await FakeSentinel.start(old.port);
    sentinel.onQuestion = () => (sentinel.answers === 0 ? 'answer' : meets);
    const { name, connection } = connect(clientOf(sentinel));
    await eventually(() => expect(sentinel.served).toContain(meets));
    await expectToStay(name, old.admin);
    connection.close();
    await eventually(() => expect(sentinel.open).toBe(0));
  });

  it('skips a sentinel that does not answer', async () => {
    const [frozen, sentinel] = [
      await FakeSentinel.start(old.port),
      await FakeSentinel.start(old.port),
    ];
    frozen.onQuestion = () => 'silence';
    const { name } = connect(clientOf(frozen, sentinel));
    await eventually(async () => expect(await connectionsNamed(name, old.admin)).toHaveLength(1));
  });

  it('gives more time to a sentinel that does not answer in time', async () => {
    const sentinel = await FakeSentinel.start(old.port);
    const askedAt: number[] = [];
    sentinel.onQuestion = () => (askedAt.push(performance.now()) < 3 ? 'silence' : 'answer');
    const { name } = connect(clientOf(sentinel));
    await eventually(async () => expect(await connectionsNamed(name, old.admin)).toHaveLength(1));
    const [first = 0, second = 0, third = 0] = askedAt;
    expect(second - first).toBeLessThan(2_000);
    expect(third - second).toBeGreaterThan(1_900);
  });

  it('can be closed while no sentinel answers', async () => {
    const sentinel = await FakeSentinel.start(old.port);
    sentinel.onQuestion = () => 'silence';
    const { connection } = connect(clientOf(sentinel));
    await eventually(() => expect(sentinel.served).toEqual(['silence']));
    const closedAt = performance.now();
    connection.close();
    await eventually(() => expect(sentinel.open).toBe(0));
    expect(performance.now() - closedAt).toBeLessThan(700); // its limit is a second
  });

  it('asks no sentinel after it is closed, not even after a pause between two rounds', async () => {
    const sentinel = await FakeSentinel.start(old.port);
    sentinel.onQuestion = () => 'cut';
    const { connection } = connect(clientOf(sentinel));
    await eventually(() => expect(sentinel.served).toHaveLength(3));
    await sleep(100); // of a pause four times as long
    connection.close();
    await sleep(600);
    expect(sentinel.served).toHaveLength(3);
    expect(sentinel.open).toBe(0);
  });

  it('can be closed before it was begun', async () => {
    const sentinel = await FakeSentinel.start(old.port);
    connect(clientOf(sentinel)).connection.close();
    await sleep(100);
    expect([sentinel.open, sentinel.served]).toEqual([0, []]);
  });

  it('leaves no connection to a sentinel behind', async () => {
    const sentinel = await FakeSentinel.start(old.port);
    const { connection } = connect(clientOf(sentinel));
    await eventually(() => expect(sentinel.served).toContain('subscribed'));
    connection.close();
    await eventually(() => expect(sentinel.open).toBe(0));
  });
});

/** It has a connection there, which stays the same. */
async function expectToStay(name: string, admin: Redis): Promise<void> {
  const ids = await connectionsNamed(name, admin);
  expect(ids).toHaveLength(1);
  await sleep(500);
  expect(await connectionsNamed(name, admin)).toEqual(ids);
}

function connect(client: RedisClient): { name: string; connection: OwnConnection } {
  const name = uniqueKey('own');
  const connection = new OwnConnection(
    client,
    { name, clock: systemClock, timeLimitMs: 30_000 },
    { ready: () => {}, closed: () => {}, failed: () => {} },
  );
  afterTest(() => connection.close());
  return { name, connection };
}

function optionsFor(sentinels: readonly FakeSentinel[]) {
  return { sentinels: sentinels.map((it) => it.endpoint), name: 'mymaster', lazyConnect: true };
}
