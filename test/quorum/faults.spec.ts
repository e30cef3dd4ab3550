/** What a quorum tolerates, and what it does when more than that happens. */
import { describe, expect, it } from '@jest/globals';
import { RedisServer } from 'dev-servers';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  LockNotAcquiredError,
  LockStoreError,
} from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { afterTest } from '../support/after-test.js';
import { connectAdmin } from '../support/connect-admin.js';
import { eventually } from '../support/eventually.js';
import { openQuorumLocks } from '../support/own-quorum.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { uniqueKey } from '../support/unique-key.js';

const LEASE_MS = 3_000;

/** Servers that the test breaks. Stopped after it. */
async function startServers(size = 3): Promise<readonly RedisServer[]> {
  const servers = await Promise.all(Array.from({ length: size }, () => RedisServer.start()));
  afterTest(() => Promise.all(servers.map((server) => server.stop())));
  return servers;
}

const urlsOf = (servers: readonly { url: string }[]): string[] => servers.map(({ url }) => url);

async function holderAt(server: RedisServer, key: string): Promise<string | null> {
  const admin = connectAdmin(server.url);
  try {
    return await admin.get(`lock:{${key}}`);
  } finally {
    admin.disconnect();
  }
}

describe('a quorum that loses a minority of its nodes', () => {
  it.each(['kill', 'pause'] as const)(
    'keeps what is held and goes on: one of three (%s) [G50]',
    async (fault) => {
      const servers = await startServers();
      const [gone] = servers as [RedisServer];
      const urls = urlsOf(servers);
      const a = await openQuorumLocks(urls, { leaseMs: LEASE_MS });
      const b = await openQuorumLocks(urls, { leaseMs: LEASE_MS, waitMs: 20_000 });
      const key = uniqueKey();
      const lock = await a.engine.acquire(key);
      await gone[fault]();
      const waiting = b.engine.acquire(key);
      await sleep(2 * LEASE_MS); // only renewals that two nodes answer keep it
      expect(lock.isHeld).toBe(true);
      expect(await lock.release()).toBe(true);
      const next = await waiting;
      expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
      expect(await next.release()).toBe(true);
      await b.engine.ping();
      expect((await b.engine.health()).nodesAway).toEqual([expect.stringContaining(gone.url)]);
      expect(a.events.map(({ type }) => type)).not.toContain('store-lost');
      await eventually(() => expect(a.events.map(({ type }) => type)).toContain('node-lost'));
      if (fault === 'kill') await gone.restart();
      else gone.resume();
      await eventually(() => expect(a.events.map(({ type }) => type)).toContain('node-back'));
      await eventually(async () => expect((await b.engine.health()).nodesAway).toEqual([]));
    },
  );

  it('goes on with three of five [G50]', async () => {
    const servers = await startServers(5);
    const urls = urlsOf(servers);
    const a = await openQuorumLocks(urls, { leaseMs: LEASE_MS });
    const key = uniqueKey();
    const lock = await a.engine.acquire(key);
    await (servers[0] as RedisServer).kill();
    (servers[3] as RedisServer).pause();
    await sleep(1.5 * LEASE_MS);
    expect(lock.isHeld).toBe(true);
    expect(await lock.release()).toBe(true);
    const again = await a.engine.acquire(key);
    expect(again.fencingToken).toBeGreaterThan(lock.fencingToken);
    (servers[3] as RedisServer).resume();
  });

  it('takes the stale votes of a node back that was frozen [G50]', async () => {
    const servers = await startServers();
    const [frozen] = servers as [RedisServer];
    const a = await openQuorumLocks(urlsOf(servers), { leaseMs: 20_000 });
    const key = uniqueKey();
    await (await a.engine.acquire(key)).release();
    frozen.pause();
    const lock = await a.engine.acquire(key);
    expect(await lock.release()).toBe(true);
    frozen.resume();
    await sleep(200); // it carries out what has arrived meanwhile
    await eventually(async () => expect(await holderAt(frozen, key)).toBeNull(), 10_000);
  });

  it.each<[string, (server: RedisServer) => Promise<unknown>]>([
    ['is out of memory', (server) => config(server, 'maxmemory', '1')],
    ['is a replica', (server) => call(server, 'REPLICAOF', '127.0.0.1', '1')],
    ['refuses its user', (server) => call(server, 'ACL', 'SETUSER', 'default', '-@all', '+acl')],
    ['refuses scripts', (server) => call(server, 'ACL', 'SETUSER', 'default', '-eval', '-evalsha')],
  ])('takes no error for an answer: a node %s [G50]', async (_, breakIt) => {
    const servers = await startServers();
    const [broken] = servers as [RedisServer];
    const a = await openQuorumLocks(urlsOf(servers), { leaseMs: LEASE_MS });
    const b = await openQuorumLocks(urlsOf(servers), { leaseMs: LEASE_MS });
    const key = uniqueKey();
    const before = await a.engine.acquire(key);
    await breakIt(broken);
    await sleep(1.5 * LEASE_MS);
    expect(before.isHeld).toBe(true);
    expect(await b.engine.tryAcquire(key)).toBeNull();
    expect(await before.release()).toBe(true);
    const next = await b.engine.acquire(key, { waitMs: 5_000 });
    expect(next.fencingToken).toBeGreaterThan(before.fencingToken);
    expect(await next.release()).toBe(true);
  });

  it('starts without them, says which are away, and takes them in later [G50]', async () => {
    const servers = await startServers();
    const [gone] = servers as [RedisServer];
    await gone.kill();
    const a = await openQuorumLocks(urlsOf(servers), { leaseMs: LEASE_MS });
    const lock = await a.engine.acquire('any');
    expect(await lock.release()).toBe(true);
    await eventually(() => expect(a.events).toMatchObject([{ type: 'node-lost', node: gone.url }]));
    await gone.restart();
    await eventually(() =>
      expect(a.events).toMatchObject([{}, { type: 'node-back', node: gone.url }]),
    );
    const key = uniqueKey();
    await a.engine.acquire(key);
    await eventually(async () => expect(await holderAt(gone, key)).not.toBeNull());
  });
});

describe('a quorum that loses its majority', () => {
  it('says so, loses what is held in time, and is back with the majority [G51]', async () => {
    const servers = await startServers();
    const [first, second] = servers as [RedisServer, RedisServer];
    const a = await openQuorumLocks(urlsOf(servers), { leaseMs: LEASE_MS, waitMs: 1_000 });
    const lock = await a.engine.acquire('held');
    const lostAt = new Promise<number>((resolve) =>
      lock.signal.addEventListener('abort', () => resolve(performance.now())),
    );
    const from = performance.now();
    await first.kill();
    second.pause();
    expect((await lostAt) - from).toBeLessThan(LEASE_MS);
    expect(lock.isHeld).toBe(false);
    const error = await a.engine.acquire('other').then(
      () => undefined,
      (reason: unknown) => reason,
    );
    expect(error).toBeInstanceOf(LockStoreError);
    expect(error).not.toBeInstanceOf(LockNotAcquiredError);
    const single = await a.engine.tryAcquire('other').catch((reason: unknown) => reason);
    expect(single).toBeInstanceOf(LockStoreError);
    expect(String(single)).toContain(first.url);
    await expect(a.engine.ping()).rejects.toThrow(LockStoreError);
    expect(a.events.map(({ type }) => type)).toContain('store-lost');
    second.resume();
    await eventually(() => expect(a.events.map(({ type }) => type)).toContain('store-back'));
    const next = await a.engine.acquire('held', { waitMs: 20_000 });
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    await a.engine.ping();
  });

  it('does not start, and names the nodes and what is needed [G51]', async () => {
    const servers = await startServers();
    const [first, second, third] = servers as [RedisServer, RedisServer, RedisServer];
    await Promise.all([first.kill(), second.kill()]);
    const opening = openQuorumLocks(urlsOf(servers), { startMs: 1_000 });
    const error = await opening.catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(LockStoreError);
    expect(String(error)).toMatch(/only 1 of the 3 nodes .* 2 are needed/);
    expect(String(error)).toContain(first.url);
    expect(String(error)).not.toContain(`${third.url}:`);
  });

  it('gives a lock to one side of a partition at the most [G51]', async () => {
    const servers = await startServers();
    const proxies = await Promise.all(servers.map(({ port }) => TcpProxy.start(port)));
    const [cut1, cut2] = proxies as [TcpProxy, TcpProxy];
    const inside = await openQuorumLocks(urlsOf(servers), { leaseMs: LEASE_MS });
    const outside = await openQuorumLocks(
      proxies.map(({ url }) => url),
      { leaseMs: LEASE_MS, waitMs: 2 * LEASE_MS },
    );
    const key = uniqueKey();
    const lock = await outside.engine.acquire(key);
    const waiting = inside.engine.acquire(key, { waitMs: 20_000 });
    cut1.silenceAll();
    cut2.silenceAll();
    const next = await waiting;
    expect(lock.isHeld).toBe(false); // it has ended before the other side could have it
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    await expect(outside.engine.acquire(key)).rejects.toThrow(LockStoreError);
    expect(next.isHeld).toBe(true);
  });
});

describe('a node that restarts without its data', () => {
  /** The holder has the votes of the first and the second node only; the second then forgets its vote. */
  async function forgottenVote(rejoinAfterMs: number) {
    const servers = await startServers();
    const [, second, third] = servers as [RedisServer, RedisServer, RedisServer];
    const proxies = await Promise.all([second, third].map(({ port }) => TcpProxy.start(port)));
    const urls = [...urlsOf(servers.slice(0, 1)), ...urlsOf(proxies)];
    const options = { leaseMs: LEASE_MS, rejoinAfterMs };
    const a = await openQuorumLocks(urls, { ...options, rejoinAfterMs: 0 });
    const key = uniqueKey();
    await third.kill();
    const lock = await a.engine.acquire(key, { renew: false });
    expect(await holderAt(second, key)).not.toBeNull();
    for (const proxy of proxies) proxy.cutAll(); // so that it cannot restore its votes
    await Promise.all([second.kill(), third.restart()]);
    await second.restart();
    const b = await openQuorumLocks(urlsOf(servers), options);
    return { b, key, lock };
  }

  it('gives no vote while a lease that it has forgotten may last [G52]', async () => {
    const { b, key, lock } = await forgottenVote(LEASE_MS);
    const single = await b.engine.tryAcquire(key).catch((reason: unknown) => reason);
    expect(single).toBeInstanceOf(LockStoreError);
    expect(String(single)).toContain('rejoinAfterMs');
    // That it knows of no lock says nothing either.
    const listed = async (): Promise<string[]> => {
      const keys: string[] = [];
      for await (const { key: each } of b.engine.list('*')) keys.push(each);
      return keys;
    };
    const looks = [() => b.engine.inspect(key), listed, () => b.engine.forceRelease(key)];
    for (const look of looks) await expect(look()).rejects.toThrow(/may have forgotten votes/);
    const next = await b.engine.acquire(key, { waitMs: 20_000 });
    expect(lock.isHeld).toBe(false);
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
  });

  it('would let in a second holder with a rejoinAfterMs of 0, against which the fence remains', async () => {
    const { b, key, lock } = await forgottenVote(0);
    const next = await b.engine.tryAcquire(key);
    expect(lock.isHeld).toBe(true);
    expect(next?.isHeld).toBe(true);
    expect(next?.fencingToken).toBeGreaterThan(lock.fencingToken);
  });

  it.each([0, 1_500])(
    'takes its vote back for a lock that is held, one node after the other, after %i ms [G52]',
    async (rejoinAfterMs) => {
      const servers = await startServers();
      const options = { leaseMs: 1_500, rejoinAfterMs };
      const a = await openQuorumLocks(urlsOf(servers), options);
      const b = await openQuorumLocks(urlsOf(servers), options);
      const key = uniqueKey();
      const lock = await a.engine.acquire(key, { maxHoldMs: Infinity, waitMs: 20_000 });
      for (const server of servers) {
        await server.kill();
        await server.restart();
        await eventually(async () => expect(await holderAt(server, key)).not.toBeNull());
        expect(lock.isHeld).toBe(true);
        expect(await b.engine.tryAcquire(key)).toBeNull();
      }
      expect(await lock.release()).toBe(true);
      const next = await b.engine.acquire(key, { waitMs: 20_000 });
      expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    },
  );
});

async function call(server: RedisServer, command: string, ...args: string[]): Promise<unknown> {
  const admin = connectAdmin(server.url);
  try {
    return await admin.call(command, ...args);
  } finally {
    admin.disconnect();
  }
}

function config(server: RedisServer, name: string, value: string): Promise<unknown> {
  return call(server, 'CONFIG', 'SET', name, value);
}
