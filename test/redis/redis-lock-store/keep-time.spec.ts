/** A key that stays taken without a holder: the time counts from the call, whenever the command is sent. */
import { describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { KeepTime } from '../../../libs/nestjs-locked/src/redis/keep-time.js';
import { afterTest } from '../../support/after-test.js';
import { FakeClock } from '../../support/fake-clock.js';
import { connectTo, versions } from '../../support/ioredis-versions.js';
import { LEASE_MS, openRedisStore } from '../../support/open-redis-store.js';
import { useRedisServer } from '../../support/own-redis.js';
import { TcpProxy } from '../../support/tcp-proxy.js';
import { uniqueKey } from '../../support/unique-key.js';

const server = useRedisServer();

const KEEP_MS = 60_000;
const OUTAGE_MS = 500;
/** No more than this is left after the outage, whose timer may end a millisecond early. */
const MOST_LEFT_MS = KEEP_MS - OUTAGE_MS + 1;

describe.each(versions)('RedisLockStore over %s', (_version, connect) => {
  async function holding(key: string) {
    const proxy = await TcpProxy.start(server.port);
    const peer = await openRedisStore(connectTo(connect, proxy.url, { lazyConnect: true }));
    const token = peer.token();
    await peer.store.acquire({ key, token, leaseMs: LEASE_MS, nowait: false });
    const lock = peer.lockOf(key);
    return {
      ...peer,
      proxy,
      token,
      kept: async () => [await server.admin.get(lock), await server.admin.pttl(lock)] as const,
    };
  }

  const commands = ['release', 'take back, with the number used', 'take back'];
  const give = async (
    { store, token }: Awaited<ReturnType<typeof holding>>,
    what: string,
    keepMs = KEEP_MS,
  ) => {
    if (what === 'release') return store.release({ key: 'x', token, used: 1, keepMs });
    const used = what === 'take back' ? {} : { used: 1 };
    return store.takeBack([{ key: 'x', tokens: [token], keepMs, ...used }])[0];
  };

  it.each(commands)('%s: the wait for a connection is part of the time [R41]', async (what) => {
    const holder = await holding('x');
    holder.proxy.cutAll();
    const given = give(holder, what);
    await sleep(OUTAGE_MS);
    holder.proxy.heal();

    expect(await given).toEqual({ kind: what === 'release' ? 'released' : 'left' });
    const [value, leftMs] = await holder.kept();
    expect(value).toBe(`kept:${holder.token}`);
    expect(leftMs).toBeLessThanOrEqual(MOST_LEFT_MS);
  });

  it.each(commands)(
    '%s: the wait before it is sent again is part of the time, too [R41]',
    async (what) => {
      const holder = await holding('x');
      holder.proxy.silenceOldest(); // the command is lost with it
      const given = give(holder, what);
      await sleep(OUTAGE_MS);
      holder.proxy.cut();

      expect(await given).toEqual({ kind: what === 'release' ? 'released' : 'left' });
      const [value, leftMs] = await holder.kept();
      expect(value).toBe(`kept:${holder.token}`);
      expect(leftMs).toBeLessThanOrEqual(MOST_LEFT_MS);
    },
  );

  it.each(commands)('%s: the key is free if the time ends meanwhile [R41]', async (what) => {
    const holder = await holding('x');
    holder.proxy.cutAll();
    const given = give(holder, what, OUTAGE_MS / 2);
    await sleep(OUTAGE_MS);
    holder.proxy.heal();

    expect(await given).toEqual({ kind: what === 'release' ? 'released' : 'left' });
    expect(await holder.kept()).toEqual([null, -2]);
  });
});

it('time advances while Redis refuses to take several keys back in one command [R41]', async () => {
  const username = uniqueKey('user');
  await server.admin.acl('SETUSER', username, 'on', '>secret', '+@all', '~*', '&*');
  const proxy = await TcpProxy.start(server.port);
  const client = new Redis(proxy.url, { username, password: 'secret', lazyConnect: true });
  afterTest(() => client.disconnect());
  const { store, token, lockOf, fence } = await openRedisStore(client);
  const mine = { key: 'a', token: token() };
  const other = { key: 'b', token: token() };
  for (const lease of [mine, other])
    await store.acquire({ ...lease, leaseMs: LEASE_MS, nowait: false });
  await server.admin.acl('SETUSER', username, 'resetkeys', `~${lockOf(mine.key)}*`, `~${fence}`);
  proxy.delayAnswers(OUTAGE_MS);

  const commands = [mine, other].map(({ key, token }) => {
    return { key, tokens: [token] as const, keepMs: KEEP_MS };
  });
  expect(await store.takeBack(commands)[0]).toEqual({ kind: 'left' });
  expect(await server.admin.get(lockOf(mine.key))).toBe(`kept:${mine.token}`);
  expect(await server.admin.pttl(lockOf(mine.key))).toBeLessThanOrEqual(MOST_LEFT_MS);
});

describe('what is left of the time', () => {
  it('is never shorter than the rest, longer than the whole, or negative', async () => {
    const clock = new FakeClock();
    await clock.advance(0.1);
    const keep = new KeepTime(clock, 300);
    expect(keep.leftMs).toBe(300);
    await clock.advance(99.5);
    expect(keep.leftMs).toBe(201);
    await clock.advance(1_000);
    expect(keep.leftMs).toBe(0);
    expect(new KeepTime(clock).leftMs).toBe(0);
  });

  it('is the whole time at first, although sums of fractions are rounded', async () => {
    const clock = new FakeClock();
    for (let i = 0; i < 100; i++) {
      await clock.advance(0.1);
      expect(new KeepTime(clock, 300).leftMs).toBe(300);
    }
  });
});
