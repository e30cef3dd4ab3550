import { describe, expect } from '@jest/globals';
import {
  LockConfigError,
  LockStoreError,
} from '../../../libs/nestjs-locked/src/core/lock.errors.js';
import type { RedisClient } from '../../../libs/nestjs-locked/src/redis/connection/server/redis-client.js';
import { RedisLockStore } from '../../../libs/nestjs-locked/src/redis/redis-lock-store.js';
import { concurrentIt } from '../../support/concurrent.js';
import { CountingClock } from '../../support/counting-clock.js';
import { eventually } from '../../support/eventually.js';
import { connectTo, versions } from '../../support/ioredis-versions.js';
import { openAdmin } from '../../support/open-locks.js';
import { LEASE_MS, openRedisStore, type StoreOptions } from '../../support/open-redis-store.js';
import { startRedisServer, useRedisServer } from '../../support/own-redis.js';
import { StoreEvents } from '../../support/store-events.js';
import { uniqueKey } from '../../support/unique-key.js';

const server = useRedisServer();

describe.each(versions)('RedisLockStore.open over %s', (_version, connect) => {
  /** No step of opening waits longer than this. */
  const impatient = () => new CountingClock(1_500);

  /** Opens a store that must not open. */
  async function failToOpen(client: RedisClient, options?: StoreOptions): Promise<Error> {
    let closings = 0;
    const keyPrefix = options?.keyPrefix ?? 'lock:';
    const clock = options?.clock ?? impatient();
    const closeClient = async () => void closings++;
    const store = new RedisLockStore({ client, clock, keyPrefix, leaseMs: LEASE_MS, closeClient });
    const error = await store.open(new StoreEvents()).then(
      () => new Error('it opened'),
      (reason: unknown) => reason as Error,
    );
    await store.close().catch(() => {});
    expect({ closed: closings > 0, ready: store.listensFor('any') }).toEqual({
      closed: true,
      ready: false,
    });
    await eventually(() => expect(clock.timers).toBe(0));
    return error;
  }

  /** A connection of a user with these rights. */
  async function userWith(...rights: string[]): Promise<RedisClient> {
    const username = uniqueKey('user');
    await server.admin.acl('SETUSER', username, 'on', '>secret', ...rights);
    const options = { username, password: 'secret', enableReadyCheck: false };
    return connectTo(connect, server.url, options);
  }

  concurrentIt(
    'rejects with LockStoreError that names the remedy when nobody listens',
    async () => {
      const gone = await startRedisServer();
      await gone.stop();

      const error = await failToOpen(connectTo(connect, gone.url));

      expect(error).toBeInstanceOf(LockStoreError);
      expect(error.message).toMatch(
        /^Cannot connect within .*ECONNREFUSED.*check the address in 'connection', and that Redis runs$/,
      );
      expect(error).toMatchObject({ cause: { code: 'ECONNREFUSED' } });
    },
  );

  concurrentIt('rejects with LockStoreError when Redis hangs', async () => {
    const own = await startRedisServer();
    const client = connectTo(connect, own.url);
    await client.ping();
    own.pause();

    const error = await failToOpen(client);

    expect(error).toBeInstanceOf(LockStoreError);
    expect(error.message).toMatch(/^Cannot connect .* (did not answer|has said nothing)/);
  });

  concurrentIt.each([
    ['a wrong password', { password: 'wrong' }, /WRONGPASS/],
    [
      'a password in the place of the user',
      { username: 'secret' },
      /WRONGPASS.*disabled; check them in 'connection': in a URL, a password without a user follows a colon, redis/,
    ],
    ['no password', {}, /got none \(NOAUTH\); write redis:\/\/:password@host:6379/],
  ])('rejects with the answer of Redis to %s', async (_what, options, reason) => {
    const own = await startRedisServer();
    await openAdmin(own.url).config('SET', 'requirepass', 'secret');

    const error = await failToOpen(connectTo(connect, own.url, options));

    expect(error).toMatchObject({
      code: expect.stringMatching(/^LOCK_(STORE_FAILED|CONFIG_INVALID)$/),
    });
    expect(error.message).toMatch(reason);
  });

  concurrentIt(
    'rejects with LockConfigError that names the ACL rule when the user has no channels [R6]',
    async () => {
      const error = await failToOpen(await userWith('~*', '+@all', 'resetchannels'));

      expect(error).toBeInstanceOf(LockConfigError);
      expect(error.message).toMatch(/channel/);
      expect(error.message).toContain('&lock:inbox:*');
    },
  );

  concurrentIt(
    'rejects with LockConfigError when the user may listen to the inbox but has no keys',
    async () => {
      const error = await failToOpen(await userWith('~other:*', '+@all', '&*'));

      expect(error).toBeInstanceOf(LockConfigError);
      expect(error.message).toMatch(/key/);
      expect(error.message).toContain('~lock:*');
    },
  );

  concurrentIt('rejects with LockConfigError when the user may not run scripts', async () => {
    const error = await failToOpen(await userWith('~*', '&*', '+@all', '-@scripting'));

    expect(error).toBeInstanceOf(LockConfigError);
    expect(error.message).toMatch(/evalsha/);
  });

  concurrentIt.each(['get', 'pexpire', 'pttl', 'zrem', 'zcard', 'zrange', 'pubsub'])(
    'rejects with LockConfigError when the user may not use %s, which the scripts need',
    async (command) => {
      const error = await failToOpen(await userWith('~*', '&*', '+@all', `-${command}`));

      expect(error).toBeInstanceOf(LockConfigError);
    },
  );

  concurrentIt('needs no more than the rights that the message names', async () => {
    const peer = await openRedisStore(await userWith('~lock:*', '&lock:inbox:*', '+@all'), {
      keyPrefix: 'lock:',
    });
    const key = uniqueKey();
    const [a, b, c] = [peer.token(), peer.token(), peer.token()];
    const ask = { key, leaseMs: LEASE_MS, nowait: false };

    expect(await peer.store.acquire({ ...ask, token: a })).toMatchObject({ kind: 'granted' });
    expect(await peer.store.acquire({ ...ask, token: b })).toMatchObject({ kind: 'queued' });
    expect(
      await peer.store.requeue({ key, token: a, used: 0, newToken: c, leaseMs: LEASE_MS }),
    ).toMatchObject({
      kind: 'queued',
    });
    expect(await peer.store.release({ key, token: b, used: 0 })).toEqual({ kind: 'released' });
    expect(await peer.store.release({ key, token: c, used: 0 })).toEqual({ kind: 'released' });
  });

  concurrentIt.each([
    ['5.0.14', /^Redis 5\.0 is too old: nestjs-locked needs 6\.2 or newer$/],
    ['6.0.20', /^Redis 6\.0 is too old: nestjs-locked needs 6\.2 or newer$/],
  ])('rejects with LockConfigError for Redis %s [R36]', async (version, message) => {
    const error = await failToOpen(saying(`redis_version:${version}\r\n`));

    expect(error).toBeInstanceOf(LockConfigError);
    expect(error.message).toMatch(message);
  });

  concurrentIt.each(['redis_version:6.2.0', 'redis_version:10.0.0', 'server_name:other', ''])(
    'accepts a server that says %j [R36]',
    async (info) => {
      await openRedisStore(saying(info));
    },
  );

  concurrentIt('accepts a server that does not tell the user its version', async () => {
    const client = await userWith('~*', '&*', '+@all', '-info');
    await openRedisStore(client);
  });

  /** A client whose server says this about itself. */
  function saying(info: string): RedisClient {
    const client: RedisClient = connectTo(connect, server.url);
    return {
      options: client.options,
      duplicate: (override) => {
        const connection = client.duplicate(override);
        // Before it is ready, the client itself sends INFO.
        const ask = connection.info.bind(connection);
        connection.info = (...args) =>
          connection.status === 'ready' ? Promise.resolve(info) : ask(...args);
        return connection;
      },
    };
  }
});
