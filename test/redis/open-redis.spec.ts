import { describe, expect, it } from '@jest/globals';
import type { Redis } from 'ioredis';
import { LockConfigError, LockStoreError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { openRedis } from '../../libs/nestjs-locked/src/redis/connection/server/open-redis.js';
import { afterTest } from '../support/after-test.js';
import { CountingClock } from '../support/counting-clock.js';
import { eventually } from '../support/eventually.js';
import { connectTo, versions } from '../support/ioredis-versions.js';
import { LEASE_MS, newRedisStore, openRedisStore } from '../support/open-redis-store.js';
import { startRedisServer, useRedisServer } from '../support/own-redis.js';
import { TcpProxy } from '../support/tcp-proxy.js';

const server = useRedisServer();

describe('openRedis', () => {
  it.each([
    ['a URL', () => server.url],
    ['options', () => ({ port: server.port, db: 2 })],
  ])('creates a client from %s, and closes it', async (_what, connection) => {
    const opened = openRedis(connection());
    afterTest(() => opened.close());
    const peer = await openRedisStore(opened.client);
    const token = peer.token();
    expect(
      await peer.store.acquire({ key: 'x', token, leaseMs: LEASE_MS, nowait: false }),
    ).toMatchObject({ kind: 'granted' });

    await opened.close();

    await eventually(() => expect((opened.client as Redis).status).toBe('end'));
  });

  it('creates a client that gives up a silent connection', async () => {
    const proxy = await TcpProxy.start(server.port);
    const opened = openRedis(proxy.url);
    afterTest(() => opened.close());
    const peer = await openRedisStore(opened.client, { leaseMs: 1_500 });

    proxy.silenceOldest();

    await eventually(async () => {
      const ask = { key: 'x', token: peer.token(), leaseMs: LEASE_MS, nowait: true };
      expect(await peer.store.acquire(ask)).not.toMatchObject({ kind: 'unknown' });
    });
  });

  it.each(versions)(
    'uses a client of %s unchanged, and does not close it',
    async (_version, connect) => {
      const client = connectTo(connect, server.url);

      const opened = openRedis(client);
      await opened.close();

      expect(opened.client).toBe(client);
      expect(await client.ping()).toBe('PONG');
    },
  );

  it('prints nothing and throws nothing while its server is away', async () => {
    const gone = await startRedisServer();
    await gone.stop();
    const opened = openRedis(gone.url);
    afterTest(() => opened.close());
    const refused = newRedisStore(opened.client, { clock: new CountingClock(300) });

    await expect(refused.store.open(refused.events)).rejects.toThrow(LockStoreError);
  });

  it.each([
    ['nothing', undefined],
    ['null', null],
    ['a number', 6379],
    ['an address that is no URL', 'localhost:6379'],
    ['an empty text', ''],
    ['another kind of URL', 'http://localhost:6379'],
    ['a function', () => {}],
  ])('refuses %s', (_what, connection) => {
    expect(() => openRedis(connection as never)).toThrow(LockConfigError);
    expect(() => openRedis(connection as never)).toThrow(
      /^Invalid option connection: .* must be a URL such as 'redis:\/\/localhost:6379', ioredis options, or an ioredis client(?:; .*)?$/s,
    );
  });

  it.each([
    ['a list of servers', () => [server.url]],
    ['a client of another library', () => new (class OtherClient {})()],
  ])(
    'refuses %s, which it cannot use, instead of connecting to localhost [G39]',
    (_what, connection) => {
      expect(() => {
        const opened = openRedis(connection());
        void opened.close();
      }).toThrow(LockConfigError);
    },
  );
});
