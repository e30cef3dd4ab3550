import { describe, expect, it } from '@jest/globals';
import { connectTo, variants } from '../../support/ioredis-versions.js';
import { LEASE_MS, openRedisStore } from '../../support/open-redis-store.js';
import { useRedisServer } from '../../support/own-redis.js';
import { BLOCK } from '../../support/script-replies.js';
import { uniqueKey } from '../../support/unique-key.js';

const server = useRedisServer();

describe.each(variants)('RedisLockStore over %s', (_version, connect) => {
  it('returns every reply as a union, and every message with its meaning [R33]', async () => {
    const key = 'stock 42: größe';
    const keyPrefix = `${uniqueKey('store')}:`;
    const [a, b] = await Promise.all([
      openRedisStore(connectTo(connect, server.url), { keyPrefix }),
      openRedisStore(connectTo(connect, server.url), { keyPrefix }),
    ]);
    const [a1, a2, b1, b2, b3] = [a.token(), a.token(), b.token(), b.token(), b.token()];
    const ask = { key, leaseMs: LEASE_MS, nowait: false };
    const number = expect.any(Number);

    const first = await a.store.acquire({ ...ask, token: a1 });
    expect(first).toEqual({
      kind: 'granted',
      token: a1,
      fence: number,
      blockEnd: number,
      waiters: 0,
    });
    if (first.kind !== 'granted') throw new Error('not granted');
    expect(first.blockEnd).toBe(first.fence);

    const busy = await b.store.acquire({ ...ask, nowait: true, token: b1 });
    expect(busy).toEqual({ kind: 'busy', remainingMs: number, foreign: false });
    expect(await a.events.next()).toEqual({ kind: 'wanted', key, token: a1 });

    const queued = await b.store.acquire({ ...ask, token: b1 });
    expect(queued).toEqual({
      kind: 'queued',
      token: b1,
      position: number,
      remainingMs: number,
      foreign: false,
    });
    if (queued.kind !== 'queued') throw new Error('not queued');
    expect(await a.events.next()).toEqual({ kind: 'wanted', key, token: a1 });

    const { position } = queued;
    const again = { key, token: b1, newToken: b2, leaseMs: LEASE_MS, position };
    expect(await b.store.recheck(again)).toMatchObject({ kind: 'queued', token: b2, position });
    expect(await a.events.next()).toEqual({ kind: 'wanted', key, token: a1 });

    const used = first.fence + 7;
    expect(
      await Promise.all(
        a.store.renew([
          { key, token: a1, leaseMs: LEASE_MS, used, reserves: BLOCK },
          { key, token: b2, leaseMs: LEASE_MS, used, reserves: BLOCK },
        ]),
      ),
    ).toEqual([{ kind: 'renewed', blockEnd: used + BLOCK, waiters: 1 }, { kind: 'lost' }]);

    const requeued = await a.store.requeue({
      key,
      token: a1,
      used,
      newToken: a2,
      leaseMs: LEASE_MS,
    });
    expect(requeued).toMatchObject({ kind: 'queued', token: a2, foreign: false });
    const grant = await b.events.next();
    expect(grant).toEqual({
      kind: 'grant',
      key,
      token: b2,
      fence: number,
      blockEnd: number,
      waiters: 1,
      acceptMs: 3_000,
    });
    if (typeof grant === 'string' || grant.kind !== 'grant') throw new Error('no grant');
    expect(grant.fence).toBeGreaterThan(used);

    expect(await a.store.release({ key, token: a1, used })).toEqual({ kind: 'lost' });
    expect(await Promise.all(a.store.takeBack([{ key, tokens: [a2] }]))).toEqual([
      { kind: 'left' },
    ]);
    expect(await b.store.leave({ key, tokens: [b3, b2], leaseMs: LEASE_MS })).toMatchObject({
      kind: 'granted',
      token: b2,
    });
    expect(await b.store.release({ key, token: b2, used: grant.fence })).toEqual({
      kind: 'released',
    });
    expect(a.events.log.takeAll().concat(b.events.log.takeAll())).toEqual([]);
  });

  it('distinguishes a foreign holder without an expiry from one of ours', async () => {
    const peer = await openRedisStore(connectTo(connect, server.url));
    await server.admin.set(peer.lockOf('x'), 'somebody');
    const ask = { key: 'x', token: peer.token(), leaseMs: LEASE_MS };

    expect(await peer.store.acquire({ ...ask, nowait: true })).toEqual({
      kind: 'busy',
      remainingMs: Infinity,
      foreign: true,
    });
    expect(await peer.store.acquire({ ...ask, nowait: false })).toMatchObject({
      kind: 'queued',
      remainingMs: Infinity,
      foreign: true,
    });
  });
});
