import { describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { LockKeyError } from '../../../libs/nestjs-locked/src/core/lock.errors.js';
import { afterTest } from '../../support/after-test.js';
import { eventually } from '../../support/eventually.js';
import { connectTo, versions } from '../../support/ioredis-versions.js';
import { connectionsNamed, LEASE_MS, openRedisStore } from '../../support/open-redis-store.js';
import { useRedisServer } from '../../support/own-redis.js';
import { uniqueKey } from '../../support/unique-key.js';

const server = useRedisServer();

describe.each(versions)('the client of the user, %s', (_version, connect) => {
  it('is left unchanged: open, with its options, members and listeners [D143]', async () => {
    const client = connectTo(connect, server.url);
    await client.ping();
    const look = () => ({
      status: client.status,
      options: { ...client.options },
      members: Object.getOwnPropertyNames(client).sort(),
      methods: Object.getOwnPropertyNames(Object.getPrototypeOf(client)).sort(),
      listeners: client.eventNames().map((name) => [name, client.listenerCount(name)]),
    });
    const before = look();

    const peer = await openRedisStore(client);
    await peer.store.acquire({ key: 'x', token: peer.token(), leaseMs: LEASE_MS, nowait: false });
    const during = look();
    await peer.store.close();

    expect(during).toEqual(before);
    expect(look()).toEqual(before);
    expect(await client.ping()).toBe('PONG');
    await eventually(async () =>
      expect(await connectionsNamed(peer.channel, server.admin)).toEqual([]),
    );
  });

  it('may have a key prefix: keys have it, channels do not [R6]', async () => {
    const prefix = `${uniqueKey('app')}:`;
    const a = await openRedisStore(connectTo(connect, server.url, { keyPrefix: prefix }));
    const b = await openRedisStore(connectTo(connect, server.url, { keyPrefix: prefix }), a);
    const without = await openRedisStore(connectTo(connect, server.url), a);
    const ask = { key: 'x', leaseMs: LEASE_MS, nowait: false };
    const [token, waiting, other] = [a.token(), b.token(), without.token()];

    expect(await a.store.acquire({ ...ask, token })).toMatchObject({ kind: 'granted' });
    expect(await server.admin.get(`${prefix}${a.lockOf('x')}`)).toBe(token);
    expect(await b.store.acquire({ ...ask, token: waiting })).toMatchObject({ kind: 'queued' });
    expect(await a.events.next()).toEqual({ kind: 'wanted', key: 'x', token });
    await a.store.release({ key: 'x', token, used: 0 });
    expect(await b.events.next()).toMatchObject({ kind: 'grant', key: 'x', token: waiting });
    expect(await server.admin.pubsub('NUMSUB', a.channel)).toEqual([a.channel, 1]);
    expect(await without.store.acquire({ ...ask, token: other })).toMatchObject({
      kind: 'granted',
    });
  });

  it('may have a key prefix: the locks under it are listed, and no others', async () => {
    const keyPrefix = `${uniqueKey('app')}[1]*:`;
    const a = await openRedisStore(connectTo(connect, server.url, { keyPrefix }));
    const without = await openRedisStore(connectTo(connect, server.url));
    const ask = { leaseMs: LEASE_MS, nowait: false };
    await a.store.acquire({ ...ask, key: 'listed', token: a.token() });
    await without.store.acquire({ ...ask, key: 'another', token: without.token() });
    const found: string[] = [];
    for await (const key of a.store.inspector.list('*')) found.push(key);
    expect(found).toEqual(['listed']);
  });

  it('lists no pattern that begins with the keyPrefix, because keys do not have it here', async () => {
    const a = await openRedisStore(connectTo(connect, server.url));
    const { keyPrefix: prefix } = a;
    const listed = async (pattern: string): Promise<string[]> => {
      const found: string[] = [];
      for await (const key of a.store.inspector.list(pattern)) found.push(key);
      return found;
    };
    for (const [pattern, meant] of [
      [`${prefix}stock:*`, 'stock:*'],
      [prefix, '*'],
    ] as const) {
      const refused = listed(pattern);
      await expect(refused).rejects.toBeInstanceOf(LockKeyError);
      const other = `[${prefix.slice(0, 1)}]${pattern.slice(1)}`;
      await expect(refused).rejects.toThrow(
        `Cannot list the locks of '${pattern}': it begins with the keyPrefix, which keys do not have here; write '${meant}', or '${other}' if your keys begin like that, too`,
      );
    }
    const key = `${prefix}stock:1`;
    await a.store.acquire({ key, token: a.token(), leaseMs: LEASE_MS, nowait: false });
    expect(await listed(`[${prefix.slice(0, 1)}]${key.slice(1, -1)}*`)).toEqual([key]);
  });

  it('may have locks whose prefix has a meaning in Lua', async () => {
    const keyPrefix = `${uniqueKey()}'"\\n\n\0]]größe%$&{:`;
    const a = await openRedisStore(connectTo(connect, server.url), { keyPrefix });
    const b = await openRedisStore(connectTo(connect, server.url), { keyPrefix });
    const ask = { key: 'x', leaseMs: LEASE_MS, nowait: false };
    const [token, waiting] = [a.token(), b.token()];

    expect(await a.store.acquire({ ...ask, token })).toMatchObject({ kind: 'granted' });
    expect(await b.store.acquire({ ...ask, token: waiting })).toMatchObject({ kind: 'queued' });
    expect(await a.events.next()).toEqual({ kind: 'wanted', key: 'x', token });
    await a.store.release({ key: 'x', token, used: 0 });
    expect(await b.events.next()).toMatchObject({ kind: 'grant', key: 'x', token: waiting });
  });

  it('may use another database [D142]', async () => {
    const peer = await openRedisStore(connectTo(connect, server.url, { db: 3 }));
    const token = peer.token();

    await peer.store.acquire({ key: 'x', token, leaseMs: LEASE_MS, nowait: false });

    const look = new Redis(server.url, { db: 3 });
    afterTest(() => look.disconnect());
    expect(await look.get(peer.lockOf('x'))).toBe(token);
    expect(await server.admin.exists(peer.lockOf('x'))).toBe(0);
  });

  it.each([
    ['no off-line queue', { enableOfflineQueue: false }],
    ['no retries', { maxRetriesPerRequest: 0 }],
    ['auto-pipelining', { enableAutoPipelining: true }],
  ])('may have %s', async (_option, options) => {
    const peer = await openRedisStore(connectTo(connect, server.url, options));

    const token = peer.token();
    const ask = { key: 'x', token, leaseMs: LEASE_MS, nowait: false };
    expect(await peer.store.acquire(ask)).toMatchObject({ kind: 'granted' });
  });

  it('need not be connected, and is not connected by us', async () => {
    const client = connectTo(connect, server.url, { lazyConnect: true });
    const peer = await openRedisStore(client);

    const ask = { key: 'x', token: peer.token(), leaseMs: LEASE_MS, nowait: false };
    expect(await peer.store.acquire(ask)).toMatchObject({ kind: 'granted' });
    await peer.store.close();
    expect(client.status).toBe('wait');
  });

  it('that does not reconnect by itself does not keep the locks from reconnecting', async () => {
    const peer = await openRedisStore(
      connectTo(connect, server.url, { retryStrategy: () => null }),
    );
    for (const name of [peer.channel, peer.commands]) {
      const [id = ''] = await connectionsNamed(name, server.admin);
      await server.admin.client('KILL', 'ID', id);
    }

    expect(await peer.events.next()).toBe('inboxLost');
    expect(await peer.events.next(5_000)).toBe('reconnected');
    const ask = { key: 'x', token: peer.token(), leaseMs: LEASE_MS, nowait: false };
    expect(await peer.store.acquire(ask)).toMatchObject({ kind: 'granted' });
  });
});
