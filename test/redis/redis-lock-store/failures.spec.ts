import { describe, expect, it } from '@jest/globals';
import { LockStoreError } from '../../../libs/nestjs-locked/src/core/lock.errors.js';
import { FENCE_BLOCK } from '../../../libs/nestjs-locked/src/core/store/fence-block.js';
import type { LockStore } from '../../../libs/nestjs-locked/src/core/store/lock-store.js';
import { eventually } from '../../support/eventually.js';
import { connectTo, versions } from '../../support/ioredis-versions.js';
import { openAdmin } from '../../support/open-locks.js';
import { LEASE_MS, newRedisStore, openRedisStore } from '../../support/open-redis-store.js';
import { startRedisServer, useRedisServer } from '../../support/own-redis.js';
import { fillMemory, startSmallRedis } from '../../support/small-redis.js';
import { TcpProxy } from '../../support/tcp-proxy.js';
import { uniqueKey } from '../../support/unique-key.js';

const server = useRedisServer();

/** One of each command, for keys that nobody else uses. */
function everyCommand(
  store: LockStore,
  token: () => string,
): Record<string, () => Promise<unknown>> {
  const key = uniqueKey();
  return {
    acquire: () => store.acquire({ key, token: token(), leaseMs: LEASE_MS, nowait: false }),
    recheck: () =>
      store.recheck({ key, token: token(), newToken: token(), leaseMs: LEASE_MS, position: 1 }),
    renew: async () =>
      store.renew([{ key, token: token(), leaseMs: LEASE_MS, used: 1, reserves: FENCE_BLOCK }])[0],
    release: () => store.release({ key, token: token(), used: 1 }),
    requeue: () =>
      store.requeue({ key, token: token(), used: 1, newToken: token(), leaseMs: LEASE_MS }),
    leave: () => store.leave({ key, tokens: [token()], leaseMs: LEASE_MS }),
    'take back': async () => store.takeBack([{ key, tokens: [token()] }])[0],
  };
}

describe.each(versions)('RedisLockStore over %s', (_version, connect) => {
  it.each([
    [1_500, 500],
    [30_000, 5_000],
  ])('gives a command a third of a lease of %i ms, five seconds at most', (leaseMs, limitMs) => {
    const client = connectTo(connect, server.url);
    expect(newRedisStore(client, { leaseMs }).store.commandTimeoutMs).toBe(limitMs);
  });

  it('answers unknown within its time limit while Redis hangs, and works again afterwards', async () => {
    const own = await startRedisServer();
    const client = connectTo(connect, own.url);
    const peer = await openRedisStore(client, { leaseMs: 1_500 });
    expect(peer.store.commandTimeoutMs).toBe(500);

    own.pause();
    const before = performance.now();
    const commands = Object.entries(everyCommand(peer.store, peer.token));
    const replies = await Promise.all(commands.map(([, send]) => send()));

    expect(performance.now() - before).toBeLessThan(5_000);
    for (const [i, [kind]] of commands.entries()) {
      const cause = expect.objectContaining({
        code: 'LOCK_STORE_FAILED',
        message: expect.stringMatching(
          new RegExp(
            `^Cannot ${kind === 'requeue' ? 'release' : kind} .*(did not answer within|connection to Redis for) 500 ms`,
          ),
        ),
      });
      expect(replies[i]).toEqual({ kind: 'unknown', cause });
      expect((replies[i] as { cause: unknown }).cause).toBeInstanceOf(LockStoreError);
    }

    own.resume();
    await eventually(async () => {
      const ask = { key: uniqueKey(), token: peer.token(), leaseMs: LEASE_MS, nowait: false };
      expect(await peer.store.acquire(ask)).toMatchObject({ kind: 'granted' });
    });
  });

  it('executes what was sent while Redis hung, before the clean-up that was sent later [R23]', async () => {
    const own = await startRedisServer();
    const peer = await openRedisStore(connectTo(connect, own.url), { leaseMs: 1_500 });
    const look = openAdmin(own.url);
    const [warm, token] = [peer.token(), peer.token()];
    const ask = { key: 'x', leaseMs: LEASE_MS, nowait: false };
    await peer.store.acquire({ ...ask, token: warm });
    await peer.store.release({ key: 'x', token: warm, used: 0 });
    const before = await look.get(peer.fence);

    own.pause();
    expect(await peer.store.acquire({ ...ask, token })).toMatchObject({ kind: 'unknown' });
    const takeBack = async () => peer.store.takeBack([{ key: 'x', tokens: [token] }])[0];
    expect(await takeBack()).toMatchObject({ kind: 'unknown' });
    own.resume();

    await eventually(async () => expect(await takeBack()).toMatchObject({ kind: 'left' }));
    expect(await look.exists(peer.lockOf('x'), `${peer.lockOf('x')}:queue`)).toBe(0);
    expect(await look.get(peer.fence)).not.toBe(before); // the key was taken
  });

  it('answers unknown with the reason when Redis refuses', async () => {
    const peer = await openRedisStore(connectTo(connect, server.url));
    await server.admin.hset(peer.lockOf('x'), 'owner', '1');
    await server.admin.pexpire(peer.lockOf('x'), 20_000);

    const reply = await peer.store.acquire({
      key: 'x',
      token: peer.token(),
      leaseMs: LEASE_MS,
      nowait: false,
    });

    expect(reply).toMatchObject({
      kind: 'unknown',
      cause: {
        code: 'LOCK_STORE_FAILED',
        message: expect.stringMatching(/^Cannot acquire 'x': WRONGTYPE/),
      },
    });
  });

  it('reports silence as silence, even if the key has the name of an error [D34]', async () => {
    const own = await startRedisServer();
    const peer = await openRedisStore(connectTo(connect, own.url), { leaseMs: 1_500 });
    const ask = { key: 'WRONGTYPE:1', token: peer.token(), leaseMs: LEASE_MS, nowait: false };

    own.pause();
    const reply = await peer.store.acquire(ask);
    own.resume();

    expect(reply).toMatchObject({
      kind: 'unknown',
      cause: {
        message: expect.stringMatching(
          /^Cannot acquire 'WRONGTYPE:1': .* (did not .*|Redis has said nothing for \d+) ms$/,
        ),
      },
    });
    expect(reply).not.toHaveProperty('isLasting');
  });

  it('acquire answers unknown and release still works when Redis is out of memory', async () => {
    const own = await startSmallRedis();
    const peer = await openRedisStore(connectTo(connect, own.url));
    const look = openAdmin(own.url);
    const [held, tried] = [peer.token(), peer.token()];
    const ask = { leaseMs: LEASE_MS, nowait: false };
    await peer.store.acquire({ ...ask, key: 'held', token: held });
    const release = { key: 'held', token: held, used: 0 };
    await peer.store.release({ ...release, token: tried }); // the server knows the script
    await fillMemory(look);

    expect(await peer.store.acquire({ ...ask, key: 'free', token: tried })).toMatchObject({
      kind: 'unknown',
      cause: { message: expect.stringContaining('OOM') },
    });
    expect(await peer.store.release(release)).toEqual({ kind: 'released' });
  });

  it('works through SCRIPT FLUSH as if nothing had happened', async () => {
    const own = await startRedisServer();
    const peer = await openRedisStore(connectTo(connect, own.url));
    const look = openAdmin(own.url);
    for (let round = 1; round <= 2; round++) {
      for (const send of Object.values(everyCommand(peer.store, peer.token))) {
        await look.script('FLUSH');
        expect(await send()).not.toMatchObject({ kind: 'unknown' });
      }
    }
  });

  it('release counts as released, not lost, when its answer was lost with the connection [R49]', async () => {
    const proxy = await TcpProxy.start(server.port);
    const peer = await openRedisStore(connectTo(connect, proxy.url, { lazyConnect: true }));
    const token = peer.token();
    await peer.store.acquire({ key: 'x', token, leaseMs: LEASE_MS, nowait: false });

    proxy.swallowAnswersOfOldest();
    const release = peer.store.release({ key: 'x', token, used: 0 });
    await eventually(async () => expect(await server.admin.exists(peer.lockOf('x'))).toBe(0));
    proxy.cut();

    expect(await release).toEqual({ kind: 'released' });
    expect(await peer.store.release({ key: 'x', token, used: 0 })).toEqual({ kind: 'lost' });
  });

  it('a hand-over that was carried out twice, because its answer was lost, reports no loss [D51]', async () => {
    const proxy = await TcpProxy.start(server.port);
    const peer = await openRedisStore(connectTo(connect, proxy.url, { lazyConnect: true }));
    const [token, newToken, next] = [peer.token(), peer.token(), peer.token()];
    await peer.store.acquire({ key: 'x', token, leaseMs: LEASE_MS, nowait: false });

    proxy.swallowAnswersOfOldest();
    const asked = { key: 'x', used: 0, leaseMs: LEASE_MS };
    const requeue = peer.store.requeue({ ...asked, token, newToken });
    await eventually(async () => expect(await server.admin.get(peer.lockOf('x'))).toBe(newToken));
    proxy.cut();

    const reply = await requeue;
    expect(reply).toMatchObject({ kind: 'granted', token: newToken });
    expect('wasLost' in reply && reply.wasLost).toBe(false);
    // When the command runs only once, the same answer means a loss.
    const again = await peer.store.requeue({ ...asked, token, newToken: next });
    expect(again).toMatchObject({ kind: 'queued', wasLost: true });
  });
});
