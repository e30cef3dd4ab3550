import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { RedisServer } from 'dev-servers';
import { Redis } from 'ioredis';
import { acquireTogetherScript } from '../../libs/nestjs-locked/src/redis/scripts/acquire-together.lua.js';
import { acquireScript } from '../../libs/nestjs-locked/src/redis/scripts/acquire.lua.js';
import { inspectScript } from '../../libs/nestjs-locked/src/redis/scripts/inspect.lua.js';
import { leaveScript } from '../../libs/nestjs-locked/src/redis/scripts/leave.lua.js';
import { probeScript } from '../../libs/nestjs-locked/src/redis/scripts/probe.lua.js';
import { recheckScript } from '../../libs/nestjs-locked/src/redis/scripts/recheck.lua.js';
import { releaseScript } from '../../libs/nestjs-locked/src/redis/scripts/release.lua.js';
import { renewScript } from '../../libs/nestjs-locked/src/redis/scripts/renew.lua.js';
import { revokeScript } from '../../libs/nestjs-locked/src/redis/scripts/revoke.lua.js';
import { afterTest } from '../support/after-test.js';
import {
  ACCEPT_MS,
  FENCE_KEEP_MS,
  LEASE_MS,
  ScriptBench,
  type Reply,
} from '../support/script-bench.js';
import { uniqueKey } from '../support/unique-key.js';

const BLOCK = 10_000;
/** A block in milliseconds of the server's clock, which counts the same microseconds. */
const BLOCK_MS = BLOCK / 1_000;
/** How much of a lifetime a slow machine may use up between a script and the look at it. */
const SLACK_MS = 20_000;

let server: RedisServer;
let redis: Redis;

beforeAll(async () => {
  server = await RedisServer.start();
  redis = new Redis(server.url);
});
afterAll(async () => {
  redis.disconnect();
  await server.stop();
});

function bench(name?: string): ScriptBench {
  return new ScriptBench(redis, name);
}

/** Another connection to the server of this file. */
function client(options: { username?: string; password?: string } = {}): Redis {
  const other = new Redis(server.url, options);
  afterTest(() => other.disconnect());
  return other;
}

async function serverMicros(): Promise<number> {
  const [seconds, micros] = await redis.time();
  return Number(seconds) * 1_000_000 + Number(micros);
}

/** Asserts a grant for the token and gives back its numbers. */
function granted(
  reply: Reply,
  token: string,
  ...behind: 'lost'[]
): { fence: number; blockEnd: number; waiters: number } {
  expect(reply).toEqual([
    'granted',
    token,
    expect.stringMatching(/^\d{16}$/),
    expect.stringMatching(/^\d{16}$/),
    expect.any(Number),
    ...behind,
  ]);
  const [fence, blockEnd, waiters] = reply.slice(2).map(Number) as [number, number, number];
  expect(blockEnd).toBe(fence + BLOCK);
  return { fence, blockEnd, waiters };
}

/** Asserts a place in the queue for the token and gives it back. */
function queued(
  reply: Reply,
  token: string,
  ...behind: 'lost'[]
): { score: string; pttl: number; foreign: number } {
  expect(reply).toEqual([
    'queued',
    token,
    expect.stringMatching(/^\d+$/),
    expect.any(Number),
    expect.any(Number),
    ...behind,
  ]);
  const [score, pttl, foreign] = reply.slice(2) as [string, number, number];
  return { score, pttl, foreign };
}

function expectLife(ms: number, whole: number): void {
  expect(ms).toBeGreaterThan(whole - SLACK_MS);
  expect(ms).toBeLessThanOrEqual(whole);
}

/** Somebody holds the lock; the rest may be queued behind him in this order. */
async function heldBench(name?: string) {
  const it = bench(name);
  const holder = await it.peer();
  const token = holder.token();
  const { fence } = granted(await it.acquire(token), token);
  return { it, holder, token, fence };
}

/** A holder and one live waiter. */
async function contendedBench(name?: string) {
  const held = await heldBench(name);
  const waiter = await held.it.peer();
  const waiting = waiter.token();
  const { score } = queued(await held.it.acquire(waiting), waiting);
  await held.holder.heard(redis);
  return { ...held, waiter, waiting, score };
}

describe('acquire', () => {
  test('takes a free lock for leaseMs', async () => {
    const it = bench();
    const token = it.deadToken();

    const before = await serverMicros();
    const { fence, blockEnd, waiters } = granted(await it.acquire(token), token);
    const after = await serverMicros();

    expect(waiters).toBe(0);
    expect(fence).toBeGreaterThanOrEqual(before);
    expect(fence).toBeLessThanOrEqual(after);
    expect(await it.state()).toEqual({ lock: token, queue: [], fence: String(blockEnd) });
    expectLife(await it.lockLifeMs(), LEASE_MS);
    expectLife(await redis.pttl(it.fence), LEASE_MS + FENCE_KEEP_MS);
  });

  test('repeated by the holder never shortens its lease', async () => {
    const { it, token } = await heldBench();

    granted(await it.acquire(token, { leaseMs: 1_000 }), token);

    expectLife(await it.lockLifeMs(), LEASE_MS);
  });

  test('repeated by the holder is a grant of the same token with numbers above the block', async () => {
    const { it, token, fence } = await heldBench();

    const again = granted(await it.acquire(token), token);

    expect(again.fence).toBeGreaterThan(fence + BLOCK);
    expect(await it.state()).toEqual({ lock: token, queue: [], fence: String(again.blockEnd) });
    expectLife(await it.lockLifeMs(), LEASE_MS);
  });

  test('repeated by the holder tells how many wait', async () => {
    const { it, token } = await contendedBench();

    expect(granted(await it.acquire(token), token).waiters).toBe(1);
  });

  test('joins the queue of a held lock, tells how long it lasts, and asks its holder for it', async () => {
    const { it, holder, token } = await heldBench('stock 42 größe');
    const waiting = it.deadToken();

    const before = await serverMicros();
    const { score, pttl, foreign } = queued(await it.acquire(waiting), waiting);
    const after = await serverMicros();

    expect(Number(score)).toBeGreaterThanOrEqual(before);
    expect(Number(score)).toBeLessThanOrEqual(after);
    expectLife(pttl, LEASE_MS);
    expect(foreign).toBe(0);
    expect(await it.state()).toMatchObject({ lock: token, queue: [waiting, score] });
    expectLife(await redis.pttl(it.queue), 60_000);
    expect(await holder.heard(redis)).toEqual([`w ${token} stock 42 größe`]);
  });

  test('repeated by a waiter keeps its place and asks again', async () => {
    const { it, holder, token, waiting, score } = await contendedBench();
    const behind = it.deadToken();
    await it.acquire(behind);
    await holder.heard(redis);

    expect(queued(await it.acquire(waiting), waiting).score).toBe(score);

    expect(await it.waiting()).toEqual([waiting, behind]);
    expect(await holder.heard(redis)).toEqual([`w ${token} stock:42`]);
  });

  test('stands behind everybody, also when the clock of the server has gone back', async () => {
    const { it } = await heldBench();
    const future = (await serverMicros()) + 3_600_000_000;
    await it.enqueue(it.deadToken());
    await redis.zadd(it.queue, future, 'x');
    const waiting = it.deadToken();

    expect(queued(await it.acquire(waiting), waiting).score).toBe(String(future + 1));
  });

  test('takes the place kept from an earlier attempt', async () => {
    const { it, waiting, score } = await contendedBench();
    const token = it.deadToken();
    const kept = String(Number(score) - 1);

    expect(queued(await it.acquire(token, { score: kept }), token).score).toBe(kept);
    expect(await it.waiting()).toEqual([token, waiting]);
  });

  test('takes a free lock although it brings a kept place', async () => {
    const it = bench();
    const token = it.deadToken();

    granted(await it.acquire(token, { score: 7 }), token);
  });

  test.each([
    ['a uuid', '2f1c7c1e-6f0f-4c8e-a2a0-1d6a3c9f0b11'],
    ['a short value with a colon', 'abc:1'],
    ['a value that only starts like a token', `${'a'.repeat(32)}:1x`],
    ['nothing', ''],
  ])('says that a holder with %s is foreign, and tells nobody', async (_what, value) => {
    const it = bench();
    await redis.set(it.lock, value, 'PX', 100_000);
    const monitor = client();
    const published: string[] = [];
    await monitor.psubscribe(`${it.prefix}*`);
    monitor.on('pmessage', (_pattern: string, _channel: string, text: string) =>
      published.push(text),
    );
    const peer = await it.peer();
    const token = peer.token();

    const { pttl, foreign } = queued(await it.acquire(token), token);

    expectLife(pttl, 100_000);
    expect(foreign).toBe(1);
    await redis.publish(`${it.prefix}last`, 'last');
    while (published.at(-1) !== 'last')
      await new Promise((resolve) => monitor.once('pmessage', resolve));
    expect(published).toEqual(['last']);
    expect(await it.state()).toMatchObject({ lock: value });
  });

  test('gives -1 as the life of a foreign lock without an end', async () => {
    const it = bench();
    await it.setEndless(it.lock, 'somebody');
    const token = it.deadToken();

    expect(queued(await it.acquire(token), token)).toMatchObject({ pttl: -1, foreign: 1 });
  });

  test.each(['kept', 'revoked'])('waits for a %s lock as for one of ours', async (word) => {
    const it = bench();
    await redis.set(it.lock, `${word}:${it.deadToken()}`, 'PX', 100_000);
    const token = it.deadToken();

    const { pttl, foreign } = queued(await it.acquire(token), token);

    expectLife(pttl, 100_000);
    expect(foreign).toBe(0);
  });

  test('gives a free lock to the head of its queue and stands behind', async () => {
    const it = bench();
    const head = await it.peer();
    const next = await it.peer();
    const [first, second] = [head.token(), next.token()];
    await it.enqueue(first, second);
    const token = it.deadToken();

    const { pttl, foreign } = queued(await it.acquire(token), token);

    expectLife(pttl, ACCEPT_MS);
    expect(foreign).toBe(0);
    const { lock, fence } = await it.state();
    expect(lock).toBe(first);
    expect(await it.waiting()).toEqual([second, token]);
    expectLife(await it.lockLifeMs(), ACCEPT_MS);
    const granted = `g ${first} ${Number(fence) - BLOCK} ${fence} 2 ${ACCEPT_MS} stock:42`;
    expect(await head.heard(redis)).toEqual([granted]);
    expect(await next.heard(redis)).toEqual([`h ${second} ${ACCEPT_MS} stock:42`]);
  });

  test('repeated after it gave the lock to the head changes nothing, and asks the head for it', async () => {
    const it = bench();
    const head = await it.peer();
    const first = head.token();
    await it.enqueue(first);
    const token = it.deadToken();
    const { score } = queued(await it.acquire(token), token);
    const before = await it.state();
    await head.heard(redis);

    expect(queued(await it.acquire(token), token).score).toBe(score);

    expect(await it.state()).toEqual(before);
    expect(await head.heard(redis)).toEqual([`w ${first} stock:42`]);
  });

  test('takes a free lock with the full lease when all who stood before are dead', async () => {
    const it = bench();
    await it.enqueue(it.deadToken(), it.deadToken());
    const token = it.deadToken();

    expect(granted(await it.acquire(token), token).waiters).toBe(0);

    expect(await it.state()).toMatchObject({ lock: token, queue: [] });
    expectLife(await it.lockLifeMs(), LEASE_MS);
  });

  test('repeated by a waiter takes a free lock before those who came later', async () => {
    const { it, waiting } = await contendedBench();
    const later = await it.peer();
    const behind = later.token();
    await it.acquire(behind);
    await redis.del(it.lock);

    expect(granted(await it.acquire(waiting), waiting).waiters).toBe(1);

    expect(await it.waiting()).toEqual([behind]);
    expect(await later.heard(redis)).toEqual([]);
  });

  test('is refused for a key of another type, and writes nothing', async () => {
    const it = bench();
    await redis.hset(it.lock, 'owner', '1');
    await redis.pexpire(it.lock, 100_000);

    await expect(it.acquire(it.deadToken())).rejects.toThrow(/WRONGTYPE/);

    expect(await redis.exists(it.queue, it.fence)).toBe(0);
  });

  test('is refused for a fence of another type, and leaves the lock free', async () => {
    const it = bench();
    await redis.rpush(it.fence, 'list');
    await redis.pexpire(it.fence, 100_000);

    await expect(it.acquire(it.deadToken())).rejects.toThrow(/WRONGTYPE/);

    expect(await redis.exists(it.lock, it.queue)).toBe(0);
  });
});

describe('acquire with nowait', () => {
  test('takes a free lock when all who stand in its queue are dead', async () => {
    const it = bench();
    await it.enqueue(...it.deadTokens(3));
    const token = it.deadToken();

    expect(granted(await it.acquire(token, { nowait: true }), token).waiters).toBe(0);

    expect(await it.state()).toMatchObject({ lock: token, queue: [] });
  });

  test('takes a free lock', async () => {
    const it = bench();
    const token = it.deadToken();

    granted(await it.acquire(token, { nowait: true }), token);
    granted(await it.acquire(token, { nowait: true }), token);

    expect(await it.state()).toMatchObject({ lock: token, queue: [] });
  });

  test('is busy for a held lock: joins no queue, but asks for the lock', async () => {
    const { it, holder, token } = await heldBench();
    const tried = it.deadToken();
    const before = await it.state();

    for (const attempt of ['first', 'repeated']) {
      const [kind, pttl] = (await it.acquire(tried, { nowait: true })) as [string, number];

      expect([attempt, kind]).toEqual([attempt, 'busy']);
      expectLife(pttl, LEASE_MS);
      expect(await it.state()).toEqual(before);
      expect(await holder.heard(redis)).toEqual([`w ${token} stock:42`]);
    }
  });

  test('is busy for a foreign lock', async () => {
    const it = bench();
    await it.setEndless(it.lock, 'somebody');

    expect(await it.acquire(it.deadToken(), { nowait: true })).toEqual(['busy', -1, 1]);
  });

  test('gives a free lock to the head of its queue, and is busy', async () => {
    const it = bench();
    const head = await it.peer();
    const first = head.token();
    await it.enqueue(first);

    const [kind, pttl] = (await it.acquire(it.deadToken(), { nowait: true })) as [string, number];

    expect(kind).toBe('busy');
    expectLife(pttl, ACCEPT_MS);
    expect(await it.state()).toMatchObject({ lock: first, queue: [] });
    expect(await head.heard(redis)).toEqual([expect.stringMatching(`^g ${first} `)]);
  });
});

describe('acquire-together', () => {
  /** Several keys; `ask` tries them all with new tokens. */
  function several(count: number) {
    const { prefix } = bench();
    const all = Array.from({ length: count }, (_, i) => new ScriptBench(redis, `key ${i}`, prefix));
    const ask = () => {
      const asked = all.map((it) => ({ bench: it, token: it.deadToken() }));
      return { asked, tokens: asked.map(({ token }) => token), again: () => send(asked) };
    };
    const send = (asked: readonly { bench: ScriptBench; token: string }[], leaseMs?: number) =>
      all[0]!.acquireTogether(asked, leaseMs);
    const states = () => Promise.all(all.map((it) => it.state()));
    return { all, ask, states, send };
  }

  /** One of the keys has a holder who hears. */
  async function hold(it: ScriptBench) {
    const holder = await it.peer();
    const token = holder.token();
    granted(await it.acquire(token), token);
    return { holder, token };
  }

  test('takes every lock for leaseMs, each with numbers of its own', async () => {
    const { all, ask, states } = several(3);
    const { tokens, again } = ask();

    const [kind, ...numbers] = await again();

    expect(kind).toBe('granted');
    expect(await states()).toEqual(
      tokens.map((token, i) => ({ lock: token, queue: [], fence: numbers[i]![1] })),
    );
    for (const [fence, blockEnd] of numbers) expect(Number(blockEnd)).toBe(Number(fence) + BLOCK);
    for (const it of all) {
      expectLife(await it.lockLifeMs(), LEASE_MS);
      expectLife(await redis.pttl(it.fence), LEASE_MS + FENCE_KEEP_MS);
    }
  });

  test('mints above what is stored for each', async () => {
    const { all, ask } = several(2);
    const ahead = (await serverMicros()) + 3_600_000_000;
    await redis.set(all[1]!.fence, String(ahead), 'PX', 100_000);

    const [, [first] = [], [second] = []] = await ask().again();

    expect(Number(first)).toBeLessThan(ahead);
    expect(Number(second)).toBe(ahead + 1);
  });

  test.each([0, 1, 2])(
    'takes none when number %i is held, says which, and asks its holder for it',
    async (index) => {
      const { all, ask, states } = several(3);
      const { holder, token } = await hold(all[index]!);
      const before = await states();
      const { again } = ask();

      for (const attempt of ['first', 'repeated']) {
        const [kind, ...replies] = await again();

        expect([attempt, kind]).toEqual([attempt, 'busy']);
        const [pttl, foreign] = replies.splice(index, 1)[0] as [number, number];
        expectLife(pttl, LEASE_MS);
        expect(foreign).toBe(0);
        expect(replies).toEqual([[], []]);
        expect(await states()).toEqual(before);
        expect(await holder.heard(redis)).toEqual([`w ${token} key ${index}`]);
      }
    },
  );

  test.each([0, 1, 2])(
    'takes none when somebody waits for number %i, who gets it',
    async (index) => {
      const { all, ask } = several(3);
      const waiter = await all[index]!.peer();
      const waiting = waiter.token();
      await all[index]!.enqueue(all[index]!.deadToken(), waiting);

      const [kind, ...replies] = await ask().again();

      expect(kind).toBe('busy');
      const [pttl, foreign] = replies.splice(index, 1)[0] as [number, number];
      expectLife(pttl, ACCEPT_MS);
      expect(foreign).toBe(0);
      expect(replies).toEqual([[], []]);
      for (const [i, it] of all.entries()) {
        expect((await it.state()).lock).toBe(i === index ? waiting : null);
      }
      expect(await waiter.heard(redis)).toEqual([expect.stringMatching(`^g ${waiting} `)]);
    },
  );

  test('tells about every key that is taken: by us, by others, without an end', async () => {
    const { all, ask } = several(4);
    await hold(all[0]!);
    await all[1]!.setEndless(all[1]!.lock, 'somebody');
    await redis.set(all[2]!.lock, `kept:${all[2]!.deadToken()}`, 'PX', 100_000);

    expect(await ask().again()).toEqual([
      'busy',
      [expect.any(Number), 0],
      [-1, 1],
      [expect.any(Number), 0],
      [],
    ]);
    expect((await all[3]!.state()).lock).toBeNull();
  });

  test('takes all when only dead ones stand in the queues', async () => {
    const { all, ask, states } = several(3);
    for (const it of all) await it.enqueue(...it.deadTokens(5));
    const { tokens, again } = ask();

    expect((await again())[0]).toBe('granted');

    expect(await states()).toMatchObject(tokens.map((token) => ({ lock: token, queue: [] })));
  });

  test('repeated by the holder is a grant of the same tokens, and shortens none', async () => {
    const { all, ask, states, send } = several(2);
    const { asked, tokens, again } = ask();
    const [, first] = await again();

    const [kind, second] = await send(asked, 1_000);

    expect(kind).toBe('granted');
    expect(Number(second![0])).toBeGreaterThan(Number(first![1]));
    expect(await states()).toMatchObject(tokens.map((token) => ({ lock: token })));
    for (const it of all) expectLife(await it.lockLifeMs(), LEASE_MS);
  });

  test('repeated after one of the leases was lost keeps none, and hands the others on', async () => {
    const { all, ask } = several(3);
    const { again } = ask();
    await again();
    await redis.del(all[1]!.lock);
    const thief = await hold(all[1]!);
    const waiter = await all[0]!.peer();
    const waiting = waiter.token();
    await all[0]!.acquire(waiting);

    expect((await again())[0]).toBe('busy');

    expect(await all[0]!.state()).toMatchObject({ lock: waiting, queue: [] });
    expect(await all[1]!.state()).toMatchObject({ lock: thief.token });
    expect(await all[2]!.state()).toMatchObject({ lock: null });
  });

  test.each(['lock', 'queue', 'fence'] as const)(
    'is refused for a %s of another type, and writes nothing',
    async (which) => {
      const { all, ask } = several(3);
      await redis.hset(all[2]![which], 'owner', '1');
      await redis.pexpire(all[2]![which], 100_000);

      await expect(ask().again()).rejects.toThrow(/WRONGTYPE/);

      const keys = all.flatMap((it) => it.keys).filter((key) => key !== all[2]![which]);
      expect(await redis.exists(...keys)).toBe(0);
    },
  );
});

describe('recheck', () => {
  test('puts the new token in the place of the old one, and asks again', async () => {
    const { it, holder, token, waiter, waiting, score } = await contendedBench();
    const behind = it.deadToken();
    await it.acquire(behind);
    await holder.heard(redis);
    const fresh = waiter.token();

    for (const attempt of ['first', 'repeated']) {
      const reply = queued(await it.recheck(waiting, fresh, score), fresh);

      expect([attempt, reply.score]).toEqual([attempt, score]);
      expectLife(reply.pttl, LEASE_MS);
      expect(await it.waiting()).toEqual([fresh, behind]);
      expect(await holder.heard(redis)).toEqual([`w ${token} stock:42`]);
    }
  });

  test('puts a dropped waiter back at its old place', async () => {
    const { it, waiting, score } = await contendedBench();
    const behind = it.deadToken();
    await it.acquire(behind);
    await redis.zrem(it.queue, waiting);
    const fresh = it.deadToken();

    expect(queued(await it.recheck(waiting, fresh, score), fresh).score).toBe(score);

    expect(await it.waiting()).toEqual([fresh, behind]);
  });

  test('keeps the place that Redis knows, not the one it was told', async () => {
    const { it, waiting, score } = await contendedBench();
    const fresh = it.deadToken();

    expect(queued(await it.recheck(waiting, fresh, 1), fresh).score).toBe(score);
  });

  test('renews the life of the queue', async () => {
    const { it, waiting, score } = await contendedBench();
    await redis.pexpire(it.queue, 30_000);

    await it.recheck(waiting, it.deadToken(), score);

    expectLife(await redis.pttl(it.queue), 60_000);
  });

  test('finds a grant whose message was lost: the old token, prolonged to the full lease', async () => {
    const { it, token, fence, waiting, score } = await contendedBench();
    await it.release(token, fence);
    expectLife(await it.lockLifeMs(), ACCEPT_MS);
    const fresh = it.deadToken();

    for (const attempt of ['first', 'repeated']) {
      granted(await it.recheck(waiting, fresh, score), waiting);

      expect([attempt, await it.state()]).toEqual([
        attempt,
        expect.objectContaining({ lock: waiting, queue: [] }),
      ]);
      expectLife(await it.lockLifeMs(), LEASE_MS);
    }
  });

  test('finds a grant of its new token when it is repeated', async () => {
    const { it, token, fence, waiter, waiting, score } = await contendedBench();
    const fresh = waiter.token();
    await it.recheck(waiting, fresh, score);
    await it.release(token, fence);

    granted(await it.recheck(waiting, fresh, score), fresh);
    expect(await it.state()).toMatchObject({ lock: fresh, queue: [] });
  });

  test('takes a lock whose holder has gone', async () => {
    const { it, waiting, score } = await contendedBench();
    await redis.del(it.lock);
    const fresh = it.deadToken();

    granted(await it.recheck(waiting, fresh, score), fresh);
    granted(await it.recheck(waiting, fresh, score), fresh);

    expect(await it.state()).toMatchObject({ lock: fresh, queue: [] });
    expectLife(await it.lockLifeMs(), LEASE_MS);
  });

  test('repeated after its new token has joined takes a lock whose holder has gone', async () => {
    const { it, waiter, waiting, score } = await contendedBench();
    const fresh = waiter.token();
    queued(await it.recheck(waiting, fresh, score), fresh);
    await redis.del(it.lock);

    granted(await it.recheck(waiting, fresh, score), fresh);

    expect(await it.state()).toMatchObject({ lock: fresh, queue: [] });
    expect(await waiter.heard(redis)).toEqual([]);
  });

  test('gives a lock whose holder has gone to whoever stands before', async () => {
    const { it, waiter, waiting } = await contendedBench();
    const behind = it.deadToken();
    const { score } = queued(await it.acquire(behind), behind);
    await redis.del(it.lock);
    const fresh = it.deadToken();

    const reply = queued(await it.recheck(behind, fresh, score), fresh);

    expect(reply.score).toBe(score);
    expectLife(reply.pttl, ACCEPT_MS);
    expect(await it.state()).toMatchObject({ lock: waiting, queue: [fresh, score] });
    expect(await waiter.heard(redis)).toEqual([expect.stringMatching(`^g ${waiting} `)]);
  });
});

describe('renew', () => {
  test('prolongs the lease, reserves the next block, and tells how many wait', async () => {
    const { it, token, fence } = await contendedBench();
    await redis.pexpire(it.lock, 50_000);
    await redis.pexpire(it.fence, 50_000);
    const used = fence + 600_000;

    for (const attempt of ['first', 'repeated']) {
      expect([attempt, await it.renew(token, used)]).toEqual([attempt, [String(used + BLOCK), 1]]);

      expect(await it.state()).toMatchObject({ lock: token, fence: String(used + BLOCK) });
      expectLife(await it.lockLifeMs(), LEASE_MS);
      expectLife(await redis.pttl(it.fence), LEASE_MS + FENCE_KEEP_MS);
    }
  });

  test('reserves above what was used, not above what is stored', async () => {
    const { it, token, fence } = await heldBench();
    const used = fence + 5 * BLOCK; // somebody has seen such a number

    expect(await it.renew(token, used)).toEqual([String(used + BLOCK), 0]);

    await redis.del(it.lock);
    const next = it.deadToken();
    const after = granted(await it.acquire(next), next).fence;
    expect(after).toBeGreaterThan(used + BLOCK);
    expect(after).toBeLessThan(used + 2 * BLOCK);
  });

  test('never shortens a lease', async () => {
    const { it, token, fence } = await heldBench();

    await it.renew(token, fence, 1_000);

    expectLife(await it.lockLifeMs(), LEASE_MS);
  });

  test('never lowers the stored bound', async () => {
    const { it, token, fence } = await heldBench();

    expect(await it.renew(token, fence - 5)).toEqual([String(fence + BLOCK), 0]);
  });

  test.each([
    ['a free lock', null],
    ['a lock of another token', `${'b'.repeat(32)}:1`],
    ['a foreign lock', 'somebody'],
  ])('answers {} for %s, and creates nothing', async (_what, value) => {
    const it = bench();
    if (value !== null) await redis.set(it.lock, value, 'PX', 100_000);

    expect(await it.renew(it.deadToken(), 5)).toEqual([]);

    expect(await it.state()).toEqual({ lock: value, queue: [], fence: null });
    if (value !== null) expectLife(await it.lockLifeMs(), 100_000);
  });

  test('answers each lease in the order asked, whatever is wrong with the others', async () => {
    const ours = await Promise.all(Array.from({ length: 4 }, () => heldBench()));
    const [first, wrongQueue, wrongFence, last] = ours as [
      (typeof ours)[0],
      (typeof ours)[0],
      (typeof ours)[0],
      (typeof ours)[0],
    ];
    await redis.set(wrongQueue.it.queue, 'text', 'PX', 100_000);
    await redis.del(wrongFence.it.fence);
    await redis.rpush(wrongFence.it.fence, 'list');
    await redis.pexpire(wrongFence.it.fence, 100_000);
    const hash = bench();
    await redis.hset(hash.lock, 'owner', '1');
    await redis.pexpire(hash.lock, 100_000);
    const others = [bench(), hash];
    const stranger = { used: 1, token: bench().deadToken() };

    const replies = await bench().renewAll([
      { ...first, bench: first.it, used: first.fence },
      ...others.map((it) => ({ ...stranger, bench: it })),
      { ...wrongQueue, bench: wrongQueue.it, used: wrongQueue.fence },
      { ...wrongFence, bench: wrongFence.it, used: wrongFence.fence },
      { ...last, bench: last.it, used: last.fence },
    ]);

    const renewed = ({ fence }: { fence: number }) => [String(fence + BLOCK), 0];
    expect(replies).toEqual([
      renewed(first),
      [],
      [],
      renewed(wrongQueue),
      renewed(wrongFence),
      renewed(last),
    ]);
    expect(await redis.type(hash.lock)).toBe('hash');
  });

  test('is refused, not answered, by a replica that has lost its master', async () => {
    const replica = await RedisServer.start();
    afterTest(() => replica.stop());
    const demoted = new Redis(replica.url, { enableReadyCheck: false });
    afterTest(() => demoted.disconnect());
    const it = new ScriptBench(demoted);
    const token = it.deadToken();
    const { fence } = granted(await it.acquire(token), token);
    await it.renew(token, fence);
    await demoted.config('SET', 'replica-serve-stale-data', 'no');
    await demoted.replicaof('127.0.0.1', 1);

    await expect(it.renew(token, fence)).rejects.toThrow(/stale|MASTERDOWN|READONLY/);
  });
});

describe('release', () => {
  test('deletes a lock that nobody waits for, and gives the unused numbers back', async () => {
    const { it, token, fence } = await heldBench();

    expect(await it.release(token, fence + 3)).toEqual(['released']);

    expect(await it.state()).toEqual({ lock: null, queue: [], fence: String(fence + 3) });
    expectLife(await redis.pttl(it.fence), FENCE_KEEP_MS);
  });

  test('repeated is lost, and changes nothing', async () => {
    const { it, token, fence } = await heldBench();
    await it.release(token, fence);
    const before = await it.state();

    expect(await it.release(token, fence)).toEqual(['lost']);

    expect(await it.state()).toEqual(before);
  });

  test('leaves the stored bound when it is not known what was used', async () => {
    const { it, token, fence } = await heldBench();

    expect(await it.release(token, 0)).toEqual(['released']);

    expect(await it.state()).toEqual({ lock: null, queue: [], fence: String(fence + BLOCK) });
  });

  test('by somebody else is lost and takes nothing but his own place in the queue', async () => {
    const { it, token, fence, waiting } = await contendedBench();

    expect(await it.release(waiting, 1)).toEqual(['lost']);

    expect(await it.state()).toEqual({ lock: token, queue: [], fence: String(fence + BLOCK) });
    expectLife(await it.lockLifeMs(), LEASE_MS);
  });

  test('hands the lock to the first waiter for acceptMs, and tells him and the next one', async () => {
    const { it, token, fence, waiter, waiting } = await contendedBench('a b  c');
    const next = await it.peer();
    const second = next.token();
    await it.acquire(second);
    const used = fence + 3_600_000_000; // ahead of the server's clock

    expect(await it.release(token, used)).toEqual(['released']);

    expect(await it.state()).toMatchObject({ lock: waiting, fence: String(used + 1 + BLOCK) });
    expectLife(await it.lockLifeMs(), ACCEPT_MS);
    expect(await it.waiting()).toEqual([second]);
    expect(await waiter.heard(redis)).toEqual([
      `g ${waiting} ${used + 1} ${used + 1 + BLOCK} 1 ${ACCEPT_MS} a b  c`,
    ]);
    expect(await next.heard(redis)).toEqual([`h ${second} ${ACCEPT_MS} a b  c`]);
  });

  test('repeated after a hand-over is lost, and the next one keeps the lock', async () => {
    const { it, token, fence, waiter, waiting } = await contendedBench();
    await it.release(token, fence);
    const before = await it.state();
    await waiter.heard(redis);

    expect(await it.release(token, fence)).toEqual(['lost']);

    expect(await it.state()).toEqual(before);
    expect(before.lock).toBe(waiting);
    expect(await waiter.heard(redis)).toEqual([]);
  });

  test('skips waiters nobody listens for before anything is published', async () => {
    const { it, token, fence } = await heldBench();
    const [dead, alsoDead] = [it.deadToken(), it.deadToken()];
    const live = await it.peer();
    const waiting = live.token();
    for (const each of [dead, alsoDead, waiting]) await it.acquire(each);
    const watch = client();
    const channels: string[] = [];
    watch.on('pmessage', (_pattern: string, channel: string) => channels.push(channel));
    await watch.psubscribe(`${it.inboxPrefix}*`);

    expect(await it.release(token, fence)).toEqual(['released']);

    expect(await it.state()).toMatchObject({ lock: waiting, queue: [] });
    await live.heard(redis);
    expect(new Set(channels)).toEqual(new Set([live.channel]));
  });

  test('deletes the lock when only the dead wait, although a monitor listens to every channel', async () => {
    const { it, token, fence } = await heldBench();
    await it.acquire(it.deadToken());
    const monitor = client();
    await monitor.psubscribe('*');

    expect(await it.release(token, fence)).toEqual(['released']);

    expect(await it.state()).toEqual({ lock: null, queue: [], fence: String(fence) });
  });

  test('serves the live waiter behind hundreds of dead ones in the same call', async () => {
    const { it, token, fence } = await heldBench();
    const [live, next] = [await it.peer(), await it.peer()];
    const [waiting, second] = [live.token(), next.token()];
    await it.enqueue(...it.deadTokens(400), waiting, ...it.deadTokens(400), second);

    expect(await it.release(token, fence)).toEqual(['released']);

    expect(await it.state()).toMatchObject({ lock: waiting });
    expect(await it.waiting()).toEqual([second]);
    expect(await live.heard(redis)).toEqual([
      expect.stringMatching(`^g ${waiting} \\d+ \\d+ 1 ${ACCEPT_MS} `),
    ]);
    expect(await next.heard(redis)).toEqual([`h ${second} ${ACCEPT_MS} stock:42`]);
  });

  test('tells the first live waiter how long the lock is kept, dead ones aside', async () => {
    const { it, token, fence } = await heldBench();
    const live = await it.peer();
    const waiting = live.token();
    await it.enqueue(...it.deadTokens(3), waiting);

    expect(await it.release(token, fence, '', 50_000)).toEqual(['released']);

    expect(await it.state()).toMatchObject({ lock: `kept:${token}` });
    expect(await live.heard(redis)).toEqual([`h ${waiting} 50000 stock:42`]);
  });
});

describe('a lock whose other keys were overwritten', () => {
  test.each(['queue', 'fence'] as const)(
    'cannot be taken, nor asked for together (%s)',
    async (which) => {
      const it = bench();
      await redis.hset(it[which], 'x', '1');
      await redis.pexpire(it[which], 100_000);

      for (const nowait of [false, true]) {
        await expect(it.acquire(it.deadToken(), { nowait })).rejects.toThrow(/WRONGTYPE/);
      }
      await expect(it.leave(it.deadToken(), { take: true })).rejects.toThrow(/WRONGTYPE/);

      expect(await redis.exists(...it.keys)).toBe(1);
    },
  );

  test.each(['release', 'release for a while', 'requeue', 'leave', 'revoke'])(
    'can be given back: %s',
    async (how) => {
      for (const which of ['queue', 'fence'] as const) {
        const { it, token, fence } = await heldBench();
        await redis.del(it[which]);
        await redis.hset(it[which], 'x', '1');
        await redis.pexpire(it[which], 100_000);
        const fresh = it.deadToken();

        switch (how) {
          case 'release':
            expect(await it.release(token, fence)).toEqual(['released']);
            break;
          case 'release for a while':
            expect(await it.release(token, fence, '', 50_000)).toEqual(['released']);
            break;
          case 'requeue':
            granted(await it.release(token, fence, fresh), fresh);
            expect(await it.renew(fresh, fence)).not.toEqual([]);
            expect(await it.release(fresh, fence)).toEqual(['released']);
            break;
          case 'leave':
            expect(await it.leave(token)).toEqual(['left']);
            break;
          default:
            expect(await it.revoke('x')).toBe(1);
        }
        expect([which, await redis.get(it.lock)]).not.toEqual([which, token]);
      }
    },
  );

  test('is lost, not unknown, when the lock itself was overwritten', async () => {
    const { it, token, fence } = await heldBench();
    await redis.del(it.lock);
    await redis.hset(it.lock, 'owner', '1');
    await redis.pexpire(it.lock, 100_000);

    expect(await it.release(token, fence)).toEqual(['lost']);
    expect(await it.leave(token)).toEqual(['left']);
    expect(await it.renew(token, fence)).toEqual([]);
    expect(await redis.type(it.lock)).toBe('hash');
  });

  test('is unknown, not lost, when the server does not say', async () => {
    const { it, token, fence } = await heldBench();
    const username = uniqueKey('blind');
    await redis.acl('SETUSER', username, 'on', '>secret', '~*', '&*', '+@all', '-get');
    const blind = it.as(client({ username, password: 'secret' }));

    await expect(blind.release(token, fence)).rejects.toThrow(/permission|can't run/);
    await expect(blind.leave(token)).rejects.toThrow(/permission|can't run/);
    await expect(blind.renew(token, fence)).rejects.toThrow(/permission|can't run/);
    expect(await it.state()).toMatchObject({ lock: token });
  });
});

describe('more dead waiters than one call drops', () => {
  const MANY = 5_000;

  async function crowded() {
    const held = await heldBench();
    const live = await held.it.peer();
    const waiting = live.token();
    await held.it.enqueue(...held.it.deadTokens(MANY), waiting);
    return { ...held, live, waiting };
  }

  /** Repeats the command as the store does. @returns how often it was told to, and the last reply */
  async function repeat(send: () => Promise<Reply>, untouched: () => Promise<unknown>) {
    const before = await untouched();
    let count = 0;
    for (let reply = await send(); ; reply = await send()) {
      if (reply[0] !== 'again') return { count, reply };
      count++;
      expect(await untouched()).toEqual(before);
    }
  }

  const untouched = (it: ScriptBench) => async () => {
    const { lock, fence } = await it.state();
    const [last] = await redis.zrange(it.queue, '-1', '-1');
    return { lock, fence, last };
  };

  test.each([
    ['release', (it: ScriptBench, token: string) => it.release(token, 1), ['released']],
    ['leave', (it: ScriptBench, token: string) => it.leave(token), ['left']],
    [
      'release with a new token',
      (it: ScriptBench, token: string) => it.release(token, 1, 'f'.repeat(32) + ':1'),
      ['queued', 'f'.repeat(32) + ':1', expect.anything(), expect.anything(), 0],
    ],
  ] as const)(
    '%s keeps the lock until it has found the live one among them, and then gives it to that one',
    async (_how, send, expected) => {
      const { it, token, live, waiting } = await crowded();

      const { count, reply } = await repeat(() => send(it, token), untouched(it));

      expect(reply).toEqual(expected);
      expect(count).toBeGreaterThanOrEqual(3);
      expect(count).toBeLessThanOrEqual(MANY / 1_000);
      expect(await it.state()).toMatchObject({ lock: waiting });
      expect(await live.heard(redis)).toEqual([expect.stringMatching(`^g ${waiting} `)]);
    },
  );

  test.each([
    ['acquire', (it: ScriptBench, token: string) => it.acquire(token), 'queued'],
    [
      'a single try',
      (it: ScriptBench, token: string) => it.acquire(token, { nowait: true }),
      'busy',
    ],
    [
      'several keys',
      (it: ScriptBench, token: string) =>
        it.acquireTogether([{ bench: it, token }]).then(([kind]) => [kind]),
      'busy',
    ],
    ['a last try', (it: ScriptBench, token: string) => it.leave(token, { take: true }), 'left'],
    [
      'recheck',
      (it: ScriptBench, token: string) => it.recheck(it.deadToken(), token, ''),
      'queued',
    ],
  ] as const)('%s of a free lock does nothing until then', async (_how, send, expected) => {
    const { it, live, waiting } = await crowded();
    await redis.del(it.lock);
    const token = it.deadToken();

    const { count, reply } = await repeat(() => send(it, token), untouched(it));

    expect(reply[0]).toBe(expected);
    expect(count).toBeGreaterThanOrEqual(3);
    expect(await it.state()).toMatchObject({ lock: waiting });
    expect(await live.heard(redis)).toEqual([expect.stringMatching(`^g ${waiting} `)]);
  });

  test('several keys, repeated after one of the leases was lost, keep the others until then', async () => {
    const { it, token, live, waiting } = await crowded();
    const lost = new ScriptBench(redis, 'lost', it.prefix);
    const thief = (await lost.peer()).token();
    granted(await lost.acquire(thief), thief);
    const asked = [
      { bench: it, token },
      { bench: lost, token: lost.deadToken() },
    ];
    const send = (): Promise<Reply> => it.acquireTogether(asked).then(([kind]) => [kind]);

    const { count, reply } = await repeat(send, untouched(it));

    expect(reply).toEqual(['busy']);
    expect(count).toBeGreaterThanOrEqual(3);
    expect(await it.state()).toMatchObject({ lock: waiting });
    expect(await live.heard(redis)).toEqual([expect.stringMatching(`^g ${waiting} `)]);
  });

  test('do not keep an operator from taking the lock', async () => {
    const { it } = await crowded();
    expect(await it.revoke('id')).toBe(1);
    expect(await it.state()).toMatchObject({ lock: 'revoked:id' });
  });

  test('do not take with them the one who asks, whose inbox is away', async () => {
    const { it } = await heldBench();
    const behind = await it.peer();
    const waiting = it.deadToken();
    await it.enqueue(...it.deadTokens(900), waiting, ...it.deadTokens(900), behind.token());
    await redis.del(it.lock);
    const fresh = it.deadToken();

    const { count, reply } = await repeat(() => it.recheck(waiting, fresh, ''), untouched(it));

    expect(count).toBe(1);
    granted(reply, fresh);
    expect(await behind.heard(redis)).toEqual([]);
  });

  test('are no obstacle when a live one stands before them', async () => {
    const { it, token, fence } = await heldBench();
    const live = await it.peer();
    const waiting = live.token();
    await it.enqueue(waiting, ...it.deadTokens(MANY));

    expect(await it.release(token, fence)).toEqual(['released']);

    expect(await it.state()).toMatchObject({ lock: waiting });
  });
});

describe('a place in the queue', () => {
  test('is not claimed back while a lapsed lease is remembered: who left it may have had its turn', async () => {
    const { it, waiting, score } = await contendedBench();
    const next = await it.peer();
    const second = next.token();
    const place = queued(await it.acquire(second), second).score;
    await redis.zrem(it.queue, waiting); // its turn has come,
    await redis.del(it.lock); // and passed unused
    const fresh = next.token();
    granted(await it.recheck(second, fresh, place), fresh);
    const later = it.deadToken();
    const last = queued(await it.acquire(later), later).score;
    const back = it.deadToken();

    expect(Number(queued(await it.recheck(waiting, back, score), back).score)).toBeGreaterThan(
      Number(last),
    );

    const again = it.deadToken();
    queued(await it.acquire(again, { score }), again);
    expect(await it.waiting()).toEqual([later, back, again]);
    expectLife(await redis.pttl(it.lapsed), 60_000);
  });

  test('is not claimed back by the one who finds that the lock has lapsed', async () => {
    const { it, waiting, score } = await contendedBench();
    const next = await it.peer();
    const second = next.token();
    await it.acquire(second);
    await redis.zrem(it.queue, waiting);
    await redis.del(it.lock);
    const back = it.deadToken();

    queued(await it.recheck(waiting, back, score), back);

    expect(await it.state()).toMatchObject({ lock: second });
    expect(await it.waiting()).toEqual([back]);
  });

  test.each(['a single try', 'a try of several keys', 'a last try'])(
    'is not claimed back when %s has found that the lock has lapsed',
    async (what) => {
      const { it, waiting, score } = await contendedBench();
      const next = await it.peer();
      const second = next.token();
      await it.acquire(second);
      await redis.zrem(it.queue, waiting);
      await redis.del(it.lock);
      const token = it.deadToken();
      if (what === 'a single try') await it.acquire(token, { nowait: true });
      else if (what === 'a last try') await it.leave(token, { take: true });
      else await it.acquireTogether([{ bench: it, token }]);
      const later = it.deadToken();
      await it.acquire(later);
      const back = it.deadToken();

      queued(await it.recheck(waiting, back, score), back);

      expect(await it.state()).toMatchObject({ lock: second });
      expect(await it.waiting()).toEqual([later, back]);
    },
  );

  test('is kept by whoever still stands in it, also after a lease has lapsed', async () => {
    const { it, waiter, waiting, score } = await contendedBench();
    await it.acquire(it.deadToken(), { score: Number(score) + 5 });
    await redis.del(it.lock);
    granted(await it.acquire(waiting), waiting);
    const behind = waiter.token();
    const place = queued(await it.acquire(behind), behind).score;
    const last = it.deadToken();
    await it.acquire(last);
    const fresh = waiter.token();

    expect(queued(await it.recheck(behind, fresh, place), fresh).score).toBe(place);
  });
});

describe('release with a new token', () => {
  test('takes the lock again with the full lease when nobody waits', async () => {
    const { it, holder, token, fence } = await heldBench();
    const fresh = holder.token();

    const first = granted(await it.release(token, fence + 5, fresh), fresh);
    expect(first.fence).toBeGreaterThan(fence + 5);
    expect(await it.state()).toEqual({ lock: fresh, queue: [], fence: String(first.blockEnd) });
    expectLife(await it.lockLifeMs(), LEASE_MS);

    const again = granted(await it.release(token, fence + 5, fresh), fresh, 'lost');
    expect(again.fence).toBeGreaterThan(first.blockEnd);
    expect(await it.state()).toEqual({ lock: fresh, queue: [], fence: String(again.blockEnd) });
  });

  test('takes the lock again when only the dead wait', async () => {
    const { it, holder, token, fence } = await heldBench();
    await it.acquire(it.deadToken());
    const fresh = holder.token();

    granted(await it.release(token, fence, fresh), fresh);
    expect(await it.state()).toMatchObject({ lock: fresh, queue: [] });
  });

  test('hands the lock over and stands behind everybody', async () => {
    const { it, holder, token, fence, waiter, waiting } = await contendedBench();
    const next = await it.peer();
    const second = next.token();
    await it.acquire(second);
    const fresh = holder.token();

    const { score, pttl } = queued(await it.release(token, fence, fresh), fresh);
    const after = await it.state();

    expectLife(pttl, ACCEPT_MS);
    expect(after.lock).toBe(waiting);
    expect(await it.waiting()).toEqual([second, fresh]);
    expect(await waiter.heard(redis)).toEqual([
      expect.stringMatching(`^g ${waiting} \\d+ \\d+ 2 `),
    ]);
    expect(await next.heard(redis)).toEqual([`h ${second} ${ACCEPT_MS} stock:42`]);

    expect(queued(await it.release(token, fence, fresh), fresh, 'lost').score).toBe(score);
    expect(await it.state()).toEqual(after);
    expect(await waiter.heard(redis)).toEqual([`w ${waiting} stock:42`]);
  });

  test('is an ordinary acquire when the lock was lost and is free', async () => {
    const { it, token, fence } = await heldBench();
    await redis.del(it.lock);
    const fresh = it.deadToken();

    const { fence: next } = granted(await it.release(token, fence, fresh), fresh, 'lost');

    expect(next).toBeGreaterThan(fence + BLOCK);
  });

  test('is an ordinary acquire when the lock was lost to another', async () => {
    const { it, holder, token, fence, waiter, waiting } = await contendedBench();
    await redis.set(it.lock, waiting, 'PX', 100_000);
    await redis.zrem(it.queue, waiting);
    const fresh = holder.token();

    const { score, pttl } = queued(await it.release(token, fence, fresh), fresh, 'lost');

    expectLife(pttl, 100_000);
    expect(await it.state()).toMatchObject({ lock: waiting, queue: [fresh, score] });
    expect(await waiter.heard(redis)).toEqual([`w ${waiting} stock:42`]);
  });
});

describe('leave', () => {
  test('removes both tokens from the queue', async () => {
    const { it, token, waiting } = await contendedBench();
    const [other, stays] = [it.deadToken(), it.deadToken()];
    await it.acquire(other);
    await it.acquire(stays);

    expect(await it.leave(waiting, { other })).toEqual(['left']);
    expect(await it.leave(waiting, { other })).toEqual(['left']);

    expect(await it.state()).toMatchObject({ lock: token });
    expect(await it.waiting()).toEqual([stays]);
    expectLife(await it.lockLifeMs(), LEASE_MS);
  });

  test.each(['token', 'token of the re-check'])(
    'hands on a lock that was granted to the %s meanwhile',
    async (which) => {
      const { it, token, fence, waiter, waiting } = await contendedBench();
      const gone = it.deadToken();
      const tokens = which === 'token' ? { token, other: gone } : { token: gone, other: token };

      expect(await it.leave(tokens.token, tokens)).toEqual(['left']);
      const after = await it.state();
      expect(after).toMatchObject({ lock: waiting, queue: [] });
      expect(Number(after.fence)).toBeGreaterThan(fence + BLOCK);
      expectLife(await it.lockLifeMs(), ACCEPT_MS);
      expect(await waiter.heard(redis)).toEqual([expect.stringMatching(`^g ${waiting} `)]);

      expect(await it.leave(tokens.token, tokens)).toEqual(['left']);
      expect(await it.state()).toEqual(after);
    },
  );

  test('deletes a lock that was granted meanwhile and that nobody else waits for', async () => {
    const { it, token, fence } = await heldBench();

    expect(await it.leave(token)).toEqual(['left']);

    expect(await it.state()).toEqual({ lock: null, queue: [], fence: String(fence + BLOCK) });
  });

  test.each(['somebody', `kept:${'a'.repeat(32)}:1`])(
    'leaves the lock of a foreign holder (%j) alone',
    async (value) => {
      const it = bench();
      await redis.set(it.lock, value, 'PX', 100_000);
      const token = it.deadToken();
      await it.acquire(token);

      expect(await it.leave(token)).toEqual(['left']);

      expect(await it.state()).toEqual({ lock: value, queue: [], fence: null });
      expectLife(await it.lockLifeMs(), 100_000);
    },
  );

  test.each([false, true])(
    'leaves the lock of a foreign holder that wrote nothing into it alone (take: %s)',
    async (take) => {
      const it = bench();
      await redis.set(it.lock, '', 'PX', 100_000);

      expect(await it.leave(it.deadToken(), { take })).toEqual(['left']);

      expect(await it.state()).toEqual({ lock: '', queue: [], fence: null });
      expectLife(await it.lockLifeMs(), 100_000);
    },
  );
});

describe('leave with take', () => {
  test.each(['token', 'token of the re-check'])(
    'keeps a lock that was granted to the %s meanwhile, with the full lease',
    async (which) => {
      const { it, token } = await heldBench();
      const gone = it.deadToken();
      const tokens = which === 'token' ? { token, other: gone } : { token: gone, other: token };
      await redis.pexpire(it.lock, ACCEPT_MS);

      for (const attempt of ['first', 'repeated']) {
        granted(await it.leave(tokens.token, { ...tokens, take: true }), token);

        expect([attempt, await it.waiting()]).toEqual([attempt, []]);
        expectLife(await it.lockLifeMs(), LEASE_MS);
      }
    },
  );

  test('never shortens a lease', async () => {
    const { it, token } = await heldBench();
    await redis.pexpire(it.lock, 2 * LEASE_MS);

    granted(await it.leave(token, { take: true }), token);

    expectLife(await it.lockLifeMs(), 2 * LEASE_MS);
  });

  test('takes a lock that is free and that nobody waits for', async () => {
    const it = bench();
    const [token, other] = [it.deadToken(), it.deadToken()];
    await it.enqueue(token, other);

    granted(await it.leave(token, { other, take: true }), token);
    granted(await it.leave(token, { other, take: true }), token);

    expect(await it.state()).toMatchObject({ lock: token, queue: [] });
    expectLife(await it.lockLifeMs(), LEASE_MS);
  });

  test('gives a free lock to those who still wait', async () => {
    const it = bench();
    const waiter = await it.peer();
    const [token, waiting] = [it.deadToken(), waiter.token()];
    await it.enqueue(token, waiting);

    expect(await it.leave(token, { take: true })).toEqual(['left']);

    expect(await it.state()).toMatchObject({ lock: waiting, queue: [] });
    expect(await waiter.heard(redis)).toEqual([expect.stringMatching(`^g ${waiting} `)]);
  });

  test('takes a free lock although the dead still stand in its queue', async () => {
    const it = bench();
    const token = it.deadToken();
    await it.enqueue(it.deadToken(), token, it.deadToken());

    granted(await it.leave(token, { take: true }), token);

    expect(await it.state()).toMatchObject({ lock: token, queue: [] });
  });

  test('leaves the lock of a foreign holder alone', async () => {
    const value = 'somebody';
    const it = bench();
    await redis.set(it.lock, value, 'PX', 100_000);
    const token = it.deadToken();
    await it.acquire(token);

    expect(await it.leave(token, { take: true })).toEqual(['left']);

    expect(await it.state()).toEqual({ lock: value, queue: [], fence: null });
  });
});

describe('revoke', () => {
  test('takes the lock for a second, tells its holder, and the first live waiter when it ends', async () => {
    const { it, holder, token, fence } = await heldBench();
    const waiter = await it.peer();
    const waiting = waiter.token();
    await it.enqueue(it.deadToken(), waiting);

    expect(await revokeAndLook(it)).toEqual({
      lock: 'revoked:id',
      queue: [waiting, expect.any(String)],
      fence: String(fence + BLOCK),
    });
    expect(await holder.heard(redis)).toEqual([`r ${token} stock:42`]);
    expect(await waiter.heard(redis)).toEqual([`h ${waiting} 1000 stock:42`]);
  });

  test('takes the lock of a foreign holder, and nothing from nobody', async () => {
    const it = bench();
    expect(await it.revoke('id')).toBe(0);
    expect(await redis.exists(...it.keys)).toBe(0);
    await it.setEndless(it.lock, 'somebody');

    expect((await revokeAndLook(it)).lock).toBe('revoked:id');
  });

  /** Looks in the same round trip: it is over in a second. */
  async function revokeAndLook(it: ScriptBench) {
    await bench().revoke('id'); // now the server knows the script
    const [revoked, state, leftMs] = await Promise.all([
      it.revoke('id'),
      it.state(),
      it.lockLifeMs(),
    ]);
    expect(revoked).toBe(1);
    expect(leftMs).toBeLessThanOrEqual(1_000);
    expect(leftMs).toBeGreaterThan(0);
    return state;
  }
});

describe('probe', () => {
  test('publishes to the inbox, tells how many listen, and leaves nothing', async () => {
    const it = bench();
    const peer = await it.peer();
    const keys = [it.lock, it.queue, it.fence];

    for (const attempt of ['first', 'repeated']) {
      const reply = await probeScript.run(redis, keys, [peer.channel, 'probe'], () => true);

      expect([attempt, reply]).toEqual([attempt, 1]);
      expect(await peer.heard(redis)).toEqual(['probe']);
      expect(await redis.exists(...keys)).toBe(0);
    }
  });

  test('tells that nobody listens', async () => {
    const it = bench();
    const keys = [it.lock, it.queue, it.fence];

    expect(await probeScript.run(redis, keys, [`${it.inboxPrefix}x`, 'probe'], () => true)).toBe(0);
  });
});

describe('the fence', () => {
  test('is above the stored number when the clock of the server is behind', async () => {
    const it = bench();
    const stored = (await serverMicros()) + 3_600_000_000;
    await redis.set(it.fence, String(stored), 'PX', FENCE_KEEP_MS);
    const token = it.deadToken();

    expect(granted(await it.acquire(token), token).fence).toBe(stored + 1);
  });

  test('rises from lease to lease, also when a whole block was used', async () => {
    const it = bench();
    let highest = 0;
    for (let i = 0; i < 20; i++) {
      const token = it.deadToken();
      const { fence, blockEnd } = granted(await it.acquire(token), token);
      expect(fence).toBeGreaterThan(highest);
      highest = i % 2 === 0 ? blockEnd : fence;
      await it.release(token, highest);
    }
  });

  test('rises over a holder that vanished without saying what it used', async () => {
    const { it, fence } = await heldBench();
    await redis.del(it.lock);
    const token = it.deadToken();

    expect(granted(await it.acquire(token), token).fence).toBeGreaterThan(fence + BLOCK);
  });

  test('rises over what a failover has lost, also when it is ahead of the clock', async () => {
    const it = bench();
    const clock = await serverMicros();
    const replicated = `${clock + 60_000_000} ${clock}`;
    let highest = clock + 60_000_000;
    for (let i = 0; i < 3; i++) {
      await redis.del(it.lock);
      await redis.set(it.fence, replicated, 'PX', FENCE_KEEP_MS);
      const token = it.deadToken();
      const { fence } = granted(await it.acquire(token), token);
      expect(fence).toBeGreaterThan(highest);
      highest = fence;
    }
  });

  test('that is ahead of the clock grows more slowly than that', async () => {
    const it = bench();
    const clock = await serverMicros();
    const stored = clock + 60_000_000;
    await redis.set(it.fence, `${stored} ${clock}`, 'PX', FENCE_KEEP_MS);
    await sleep(100);
    const token = it.deadToken();

    const { fence } = granted(await it.acquire(token), token);
    expect(fence - stored).toBeGreaterThan(50_000 - 1);
    expect(fence - stored).toBeLessThan(((await serverMicros()) - clock) * 0.75);
  });

  test('rises although it was wiped', async () => {
    const { it, token, fence } = await heldBench();
    await it.release(token, fence);
    await redis.del(it.fence);
    const next = it.deadToken();

    expect(granted(await it.acquire(next), next).fence).toBeGreaterThan(fence);
  });

  test.each(['nonsense', ''])('starts from the clock when %j is stored', async (stored) => {
    const it = bench();
    await redis.set(it.fence, stored, 'PX', FENCE_KEEP_MS);
    const token = it.deadToken();

    const before = await serverMicros();
    expect(granted(await it.acquire(token), token).fence).toBeGreaterThanOrEqual(before);
  });

  test('is kept until the clock of the server has passed it, and for fenceKeepMs more', async () => {
    const AHEAD_MS = 7_200_000;
    const it = bench();
    const stored = (await serverMicros()) + AHEAD_MS * 1_000;
    await redis.set(it.fence, String(stored), 'PX', FENCE_KEEP_MS);
    const token = it.deadToken();

    const { fence } = granted(await it.acquire(token), token);
    expectLife(await redis.pttl(it.fence), AHEAD_MS + BLOCK_MS + 1 + FENCE_KEEP_MS);
    await it.renew(token, fence + 2 * BLOCK);
    expectLife(await redis.pttl(it.fence), AHEAD_MS + 3 * BLOCK_MS + 1 + FENCE_KEEP_MS);
    await it.release(token, fence);
    expectLife(await redis.pttl(it.fence), AHEAD_MS + 1 + FENCE_KEEP_MS);
  });

  test('is kept for fenceKeepMs longer than the lease of whoever may be using it', async () => {
    const HOURS_MS = 36_000_000;
    const it = bench();
    const [token, fresh] = [it.deadToken(), it.deadToken()];

    const { fence } = granted(await it.acquire(token, { leaseMs: HOURS_MS }), token);
    expectLife(await redis.pttl(it.fence), HOURS_MS + FENCE_KEEP_MS);
    await it.renew(token, fence, 1);
    expectLife(await redis.pttl(it.fence), HOURS_MS + FENCE_KEEP_MS);
    granted(await it.acquire(token, { leaseMs: 1 }), token);
    expectLife(await redis.pttl(it.fence), HOURS_MS + FENCE_KEEP_MS);
    granted(await it.release(token, fence, fresh), fresh);
    expectLife(await redis.pttl(it.fence), LEASE_MS + FENCE_KEEP_MS);
  });

  test('is written in digits up to the largest whole number', async () => {
    const it = bench();
    const largest = Number.MAX_SAFE_INTEGER;
    const stored = largest - 2 * BLOCK;
    await redis.set(it.fence, String(stored), 'PX', FENCE_KEEP_MS);
    const token = it.deadToken();

    const { fence } = granted(await it.acquire(token), token);
    expect(fence).toBe(stored + 1);
    expect(await it.renew(token, largest - BLOCK)).toEqual([String(largest), 0]);
    expect(await it.release(token, largest)).toEqual(['released']);
    expect((await it.state()).fence).toBe('9007199254740991');
  });
});

describe('without the right to publish', () => {
  /** A connection of a user who may do everything but publish. */
  async function muted(): Promise<Redis> {
    const username = uniqueKey('mute');
    await redis.acl('SETUSER', username, 'on', '>secret', '~*', '+@all', 'resetchannels');
    return client({ username, password: 'secret' });
  }

  test('release undoes its grant, and the waiter keeps its place', async () => {
    const { it, token, fence, waiter, waiting, score } = await contendedBench();
    const mute = it.as(await muted());

    expect(await mute.release(token, fence)).toEqual(['released']);

    expect(await it.state()).toMatchObject({ lock: null, queue: [waiting, score] });
    expect(await waiter.heard(redis)).toEqual([]);
    const fresh = waiter.token();
    granted(await it.recheck(waiting, fresh, score), fresh);
  });

  test('release with a new token is told to look again, behind the waiter', async () => {
    const { it, holder, token, fence, waiting, score } = await contendedBench();
    const mute = it.as(await muted());
    const fresh = holder.token();

    const reply = queued(await mute.release(token, fence, fresh), fresh);

    expect(reply).toMatchObject({ pttl: 25, foreign: 0 });
    expect(await it.state()).toMatchObject({
      lock: null,
      queue: [waiting, score, fresh, reply.score],
    });
  });

  test('acquire of a free lock leaves it free for the head', async () => {
    const { it, waiting, score } = await contendedBench();
    const mute = it.as(await muted());
    await redis.del(it.lock);
    const token = it.deadToken();

    const reply = queued(await mute.acquire(token), token);
    expect(reply).toMatchObject({ pttl: 25, foreign: 0 });
    const after = await it.state();
    expect(after).toMatchObject({ lock: null, queue: [waiting, score, token, reply.score] });

    expect(queued(await mute.acquire(token), token).score).toBe(reply.score);
    expect((await it.state()).queue).toEqual(after.queue);
  });

  test('acquire of a held lock joins the queue without asking', async () => {
    const { it, holder, token } = await heldBench();
    const mute = it.as(await muted());
    const waiting = it.deadToken();

    queued(await mute.acquire(waiting), waiting);

    expect(await it.state()).toMatchObject({ lock: token });
    expect(await holder.heard(redis)).toEqual([]);
  });

  test('leave undoes its grant, and the waiter keeps its place', async () => {
    const { it, token, waiting, score } = await contendedBench();
    const mute = it.as(await muted());

    expect(await mute.leave(token)).toEqual(['left']);

    expect(await it.state()).toMatchObject({ lock: null, queue: [waiting, score] });
  });

  test('probe is refused, and leaves nothing', async () => {
    const it = bench();
    const keys = [it.lock, it.queue, it.fence];
    const probe = probeScript.run(await muted(), keys, [`${it.inboxPrefix}x`, 'probe'], () => true);

    await expect(probe).rejects.toThrow(/channel/);
    expect(await redis.exists(...keys)).toBe(0);
  });
});

describe('out of memory', () => {
  test('acquire is refused and writes nothing; held locks are renewed, handed over and released', async () => {
    const small = await RedisServer.start({
      args: ['--maxmemory', '4mb', '--maxmemory-policy', 'noeviction'],
    });
    afterTest(() => small.stop());
    const full = new Redis(small.url);
    afterTest(() => full.disconnect());
    const [free, held] = [new ScriptBench(full), new ScriptBench(full)];
    const [token, waiter] = [held.deadToken(), await held.peer()];
    const { fence } = granted(await held.acquire(token), token);
    const waiting = waiter.token();
    await held.acquire(waiting);
    await fill(full);

    await expect(free.acquire(free.deadToken())).rejects.toThrow(/OOM/);
    expect(await full.exists(free.lock, free.queue, free.fence)).toBe(0);

    expect(await held.renew(token, fence)).toEqual([String(fence + BLOCK), 1]);
    expect(await held.release(token, fence)).toEqual(['released']);
    expect(await held.state()).toMatchObject({ lock: waiting, queue: [] });
    expect(await waiter.heard(full)).toEqual([expect.stringMatching(`^g ${waiting} `)]);
    const fresh = waiter.token();
    granted(await held.release(waiting, fence, fresh), fresh);
    expect(await held.leave(fresh)).toEqual(['left']);
    expect(await held.state()).toMatchObject({ lock: null, queue: [] });
  });

  test('held locks are kept for a while, taken away, found again, and handed on among the dead', async () => {
    const small = await RedisServer.start({
      args: ['--maxmemory', '4mb', '--maxmemory-policy', 'noeviction'],
    });
    afterTest(() => small.stop());
    const full = new Redis(small.url);
    afterTest(() => full.disconnect());
    const [kept, revoked, found, crowd] = Array.from(
      { length: 4 },
      () => new ScriptBench(full),
    ) as [ScriptBench, ScriptBench, ScriptBench, ScriptBench];
    const tokens = new Map<ScriptBench, string>();
    for (const it of [kept, revoked, found, crowd]) {
      const token = it.deadToken();
      granted(await it.acquire(token), token);
      tokens.set(it, token);
    }
    const waiter = await crowd.peer();
    const waiting = waiter.token();
    await crowd.enqueue(...crowd.deadTokens(300), waiting);
    await fill(full);

    expect(await kept.release(tokens.get(kept)!, 1, '', 50_000)).toEqual(['released']);
    expect((await kept.state()).lock).toBe(`kept:${tokens.get(kept)}`);
    expect(await revoked.revoke('x')).toBe(1);
    expect((await revoked.state()).lock).not.toBe(tokens.get(revoked));
    granted(await found.acquire(tokens.get(found)!), tokens.get(found)!);
    expect(await crowd.release(tokens.get(crowd)!, 1)).toEqual(['released']);
    expect(await crowd.state()).toMatchObject({ lock: waiting, queue: [] });
  });

  async function fill(full: Redis): Promise<void> {
    for (const size of [100_000, 1_000, 10]) {
      for (let i = 0; ; i++) {
        const refused = await full.set(`fill:${size}:${i}`, 'x'.repeat(size)).then(
          () => false,
          () => true,
        );
        if (refused) break;
      }
    }
  }
});

describe('the comment at the head of a script', () => {
  const documented = /^-- (?:returns|\s+\|)\s+(.+)$/gm;
  const grantedForm = 'granted token fence blockEnd waiters';
  const queuedForm = 'queued token score pttl foreign';

  test.each([
    ['acquire', acquireScript, [grantedForm, queuedForm, 'busy pttl foreign', 'again']],
    [
      'acquire-together',
      acquireTogetherScript,
      [
        'granted, and for each lock { fence, blockEnd }',
        'busy, and for each lock { pttl, foreign }, or {} = this one was free',
        'again',
      ],
    ],
    ['recheck', recheckScript, [grantedForm, queuedForm.replace('token', 'newToken'), 'again']],
    ['release', releaseScript, ['released', 'lost', grantedForm, queuedForm, 'again']],
    ['leave', leaveScript, ['left', grantedForm, 'again']],
    ['revoke', revokeScript, ['1, or 0 if nobody held it']],
  ] as const)(
    'of %s names every reply that the tests above have seen',
    (_name, script, replies) => {
      const text = headOf(script.lua).replace(/with (?:a new token|take): /g, '| ');
      const named = [...text.matchAll(documented)].flatMap(([, forms = '']) => forms.split('|'));

      expect(named.map((form) => form.trim()).filter((form) => form !== '')).toEqual(replies);
    },
  );

  test.each([
    acquireScript,
    acquireTogetherScript,
    recheckScript,
    releaseScript,
    leaveScript,
    renewScript,
    revokeScript,
  ])('of $name names every argument that the script reads, and no other', ({ lua }) => {
    const head = headOf(lua);
    const body = lua.replace(head, '');

    expect(head).toContain('ARGV inbox prefix, acceptMs, fenceKeepMs');
    expect(new Set([1, 2, 3, ...indexes(head, 'ARGV')])).toEqual(indexes(body, 'ARGV'));
    expect(head).toMatch(/^-- KEYS lock, queue, fence, lapsed /m);
    expect(body).toContain('lock, queue, fence, lapsed = unpack(KEYS, ');
    expect(indexes(body, 'KEYS')).toEqual(new Set());
  });

  test('of probe, and of inspect, names every key and argument', () => {
    expect(indexes(probeScript.lua, 'KEYS')).toEqual(new Set([1, 2, 3]));
    expect(indexes(probeScript.lua, 'ARGV')).toEqual(new Set([1, 2]));
    expect(headOf(probeScript.lua)).toContain('KEYS lock, queue, fence of a key');
    expect(indexes(inspectScript.lua, 'KEYS')).toEqual(new Set([1, 2, 3, 5]));
    expect(headOf(inspectScript.lua)).toContain('KEYS lock, queue, fence, lapsed, label');
  });

  /** The comment lines before the first line of code. */
  function headOf(lua: string): string {
    return /^\s*((?:--.*\n)+)/.exec(lua)?.[1] ?? '';
  }

  function indexes(text: string, what: 'ARGV' | 'KEYS'): Set<number> {
    const found = text.matchAll(new RegExp(`${what}\\[(\\d+)\\]`, 'g'));
    return new Set([...found].map(([, n]) => Number(n)));
  }
});

describe('the commands of the scripts', () => {
  test('are all tried by the probe', () => {
    const all = [
      acquireScript,
      acquireTogetherScript,
      recheckScript,
      releaseScript,
      leaveScript,
      renewScript,
      revokeScript,
      inspectScript,
    ].flatMap(({ lua }) => commandsOf(lua));

    expect([...new Set(all)].filter((name) => !commandsOf(probeScript.lua).includes(name))).toEqual(
      [],
    );
  });

  function commandsOf(lua: string): string[] {
    return [...lua.matchAll(/(?:call|pcall|read)\('([A-Z]+)'/g)].map(([, name = '']) => name);
  }
});
