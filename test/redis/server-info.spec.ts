/** What a server says about itself, at the start and after every reconnect. */
import { describe, expect, it } from '@jest/globals';
import { RedisCluster } from 'dev-servers';
import { LockConfigError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import {
  openRedis,
  type RedisOptions,
} from '../../libs/nestjs-locked/src/redis/connection/server/open-redis.js';
import { readServerInfo } from '../../libs/nestjs-locked/src/redis/connection/server/server-info.js';
import { RedisLockStore } from '../../libs/nestjs-locked/src/redis/redis-lock-store.js';
import { afterTest } from '../support/after-test.js';
import { CountingClock } from '../support/counting-clock.js';
import { openAdmin, openLocksOn } from '../support/open-locks.js';
import { runScriptsAs, withoutTime, withShardedPublish } from '../support/other-server.js';
import { startRedisServer } from '../support/own-redis.js';
import { StoreEvents } from '../support/store-events.js';

/** Records the policies that are reported. */
class Listener extends StoreEvents {
  readonly policies: string[] = [];

  override mayEvict(policy?: string): void {
    this.policies.push(policy ?? '');
  }
}

async function openStore(connection: string | RedisOptions) {
  const redis = openRedis(connection);
  const store = new RedisLockStore({
    client: redis.client,
    clock: new CountingClock(3_000),
    keyPrefix: 'lock:',
    leaseMs: 3_000,
    closeClient: () => redis.close(),
  });
  afterTest(() => store.close());
  const listener = new Listener();
  await store.open(listener);
  return { store, listener };
}

describe('a node of a Redis Cluster', () => {
  const REFUSED =
    /^The server in 'connection' is a node of a Redis Cluster.*pass a Cluster of ioredis, or \{ cluster: \[\{ host, port \}\] \}$/;

  it('is refused at the start [D27]', async () => {
    const node = await startRedisServer('--cluster-enabled', 'yes');
    await openAdmin(node.url).call('CLUSTER', 'ADDSLOTSRANGE', '0', '16383');

    const error = await openStore(node.url).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(LockConfigError);
    expect((error as Error).message).toMatch(REFUSED);
  });

  it('is refused by its answers if the user may not ask what it is', async () => {
    const node = await startRedisServer('--cluster-enabled', 'yes');
    const admin = openAdmin(node.url);
    await admin.call('ACL', 'SETUSER', 'app', 'on', '>secret', '~*', '&*', '+@all', '-info');

    const { port } = node;
    const user = { port, username: 'app', password: 'secret', enableReadyCheck: false };
    const error = await openStore(user).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(LockConfigError);
    expect((error as Error).message).toMatch(REFUSED);
    expect(error).toMatchObject({ cause: { message: expect.stringMatching(/^CLUSTERDOWN/) } });
  });
});

describe('a server that runs scripts in another way', () => {
  it('is refused at the start if scripts get no time there', async () => {
    const server = await startRedisServer();
    runScriptsAs(withoutTime);
    const error = await openStore(server.url).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(LockConfigError);
    expect((error as Error).message).toMatch(
      /^The server in 'connection' cannot tell the time in a script: .*use Redis or Valkey$/,
    );
    expect(error).toMatchObject({ cause: { message: expect.stringContaining('NOTIME') } });
  });

  it('is refused at the start if PUBLISH must be in the slot of the keys', async () => {
    const cluster = await RedisCluster.start({ replicasPerMaster: 0 });
    afterTest(() => cluster.stop());
    runScriptsAs(withShardedPublish);
    const error = await openLocksOn({ cluster: cluster.startupNodes }).catch(
      (reason: unknown) => reason,
    );
    expect(error).toBeInstanceOf(LockConfigError);
    expect((error as Error).message).toMatch(
      /^The cluster in 'connection' publishes to the slot of a channel only: .*or one server$/,
    );
    expect(error).toMatchObject({
      cause: { message: expect.stringMatching(/same slot|non local key/) },
    });
  });
});

describe('the eviction policy', () => {
  it('is read again after a reconnect, and reported when it has changed', async () => {
    const server = await startRedisServer();
    const admin = openAdmin(server.url);
    const { listener } = await openStore(server.url);
    const reconnected = async (maxmemory: string, policy: string): Promise<void> => {
      await admin.config('SET', 'maxmemory', maxmemory, 'maxmemory-policy', policy);
      const id = /id=(\d+).*name=lock:commands/.exec(String(await admin.client('LIST')))?.[1];
      await admin.client('KILL', 'ID', id as string);
      expect(await listener.next()).toBe('reconnected');
    };
    expect(listener.policies).toEqual([]);

    await reconnected('100mb', 'volatile-lru');
    expect(listener.policies).toEqual(['volatile-lru']);
    await reconnected('100mb', 'volatile-lru'); // said before
    expect(listener.policies).toEqual(['volatile-lru']);
    await reconnected('100mb', 'allkeys-lru');
    expect(listener.policies).toEqual(['volatile-lru', 'allkeys-lru']);
    await reconnected('100mb', 'noeviction');
    await reconnected('0', 'allkeys-lru');
    expect(listener.policies).toEqual(['volatile-lru', 'allkeys-lru']);
    await reconnected('100mb', 'allkeys-lru');
    expect(listener.policies).toEqual(['volatile-lru', 'allkeys-lru', 'allkeys-lru']);
  });

  it('is reported at the start', async () => {
    const server = await startRedisServer(
      '--maxmemory',
      '100mb',
      '--maxmemory-policy',
      'volatile-ttl',
    );
    const { listener } = await openStore(server.url);
    expect(listener.policies).toEqual(['volatile-ttl']);
  });
});

describe('readServerInfo', () => {
  it.each([
    ['', undefined],
    ['maxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n', undefined],
    ['maxmemory:1\r\nmaxmemory_policy:noeviction\r\n', undefined],
    ['maxmemory:1\r\nmaxmemory_policy:allkeys-lru\r\n', 'allkeys-lru'],
    ['redis_version:6.2.0\r\nrole:master\r\ncluster_enabled:0\r\n', undefined],
  ])('of %j returns the policy %s', (info, evictionPolicy) => {
    expect(readServerInfo(info, false)).toEqual({ evictionPolicy, upMs: 0 });
  });

  it('tells for how long the server has run, and 0 if its clock was set back since', () => {
    const upMs = (seconds: string): number =>
      readServerInfo(`uptime_in_seconds:${seconds}\r\nrun_id:abc\r\n`, false).upMs;
    expect([upMs('12'), upMs('-7')]).toEqual([12_000, 0]);
  });

  it('does not treat a replica as a mistake in the options: it may be promoted', () => {
    const read = (): unknown => readServerInfo('redis_version:7.0.15\r\nrole:slave\r\n', false);
    expect(read).toThrow('is a READONLY replica, and locks need the master');
    expect(read).not.toThrow(LockConfigError);
  });

  it.each([
    'redis_version:7.0.15\r\nredis_mode:sentinel\r\n',
    'redis_version:7.2.4\r\nvalkey_version:9.1.2\r\nserver_mode:sentinel\r\n',
  ])('refuses a sentinel: %j', (info) => {
    expect(() => readServerInfo(info, false)).toThrow(/is a sentinel, which has no keys/);
  });

  it('refuses an active replica: it is one of two masters', () => {
    const read = (): unknown =>
      readServerInfo('redis_version:6.3.4\r\nrole:active-replica\r\n', false);
    expect(read).toThrow(LockConfigError);
    expect(read).toThrow(
      "The server in 'connection' is an active replica: two masters would grant the same lock",
    );
  });
});
