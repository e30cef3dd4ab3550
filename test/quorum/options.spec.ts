import { describe, expect, it } from '@jest/globals';
import { Test } from '@nestjs/testing';
import { Cluster, Redis } from 'ioredis';
import { LockConfigError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { LockService } from '../../libs/nestjs-locked/src/nest/lock.service.js';
import { RedisLockModule } from '../../libs/nestjs-locked/src/nest/module/redis-lock.module.js';
import type { RedisLockModuleOptions } from '../../libs/nestjs-locked/src/nest/module/redis-lock.options.js';
import { openQuorum } from '../../libs/nestjs-locked/src/redis/quorum/open-quorum.js';
import { afterTest } from '../support/after-test.js';
import { openQuorumLocks, useQuorum } from '../support/own-quorum.js';
import { uniqueKey } from '../support/unique-key.js';

const quorum = useQuorum();

const urls = (count: number): string[] =>
  Array.from({ length: count }, (_, i) => `redis://localhost:${7_000 + i}`);

describe('connection: { quorum }', () => {
  it.each([
    [[], /0 servers; fewer than 3 tolerate the loss of none: name 3/],
    [urls(1), /1 servers; fewer than 3/],
    [urls(2), /2 servers; fewer than 3/],
    [urls(4), /4 servers; an even number .* name 3 or 5/],
    [urls(8), /8 servers; an even number .* name 7 or 9/],
    [urls(11), /11 servers; more than 9 .* name 9 at most/],
  ])('refuses %j [G53]', (servers, message) => {
    expect(() => openQuorum({ quorum: servers })).toThrow(LockConfigError);
    expect(() => openQuorum({ quorum: servers })).toThrow(message);
  });

  it('accepts 3 to 9 servers, of any kind that is one server [G53]', () => {
    for (const count of [3, 5, 7, 9])
      expect(openQuorum({ quorum: urls(count) }).clients).toHaveLength(count);
    const client = new Redis({ lazyConnect: true });
    const sentinels = [{ host: 'sentinel', port: 26_379 }];
    const { clients } = openQuorum({
      quorum: ['redis://localhost', { host: 'redis-2', sentinels, name: 'main' }, client],
    });
    expect(clients[2]).toBe(client);
  });

  it('refuses a node that is no single server, with its number [G53]', () => {
    const cluster = new Cluster([{ host: 'localhost', port: 1 }], { lazyConnect: true });
    const nodes = [...urls(2), cluster] as unknown as string[];
    expect(() => openQuorum({ quorum: nodes })).toThrow(/quorum\[2\]: .*a Redis Cluster cannot be/);
    cluster.disconnect();
    const missing = [...urls(2), undefined] as unknown as string[];
    expect(() => openQuorum({ quorum: missing })).toThrow(/quorum\[2\]: .*undefined/);
    expect(() => openQuorum({ quorum: 'a' as never })).toThrow(/must be a list of servers/);
    const unknown = { quorum: urls(3), rejoinAfter: 1 } as never;
    expect(() => openQuorum(unknown)).toThrow(/'connection.rejoinAfter'.*rejoinAfterMs/);
  });

  async function start(options: Partial<RedisLockModuleOptions> & { rejoinAfterMs?: number }) {
    const { rejoinAfterMs = 0, ...rest } = options;
    const connection = { quorum: quorum.urls, rejoinAfterMs };
    const module = await Test.createTestingModule({
      imports: [RedisLockModule.forRoot({ connection, ...rest })],
    }).compile();
    afterTest(() => module.close());
    await module.init();
    return module.get(LockService);
  }

  it.each<[Partial<RedisLockModuleOptions> & { rejoinAfterMs?: number }, RegExp]>([
    [{ waitReplicas: 1 }, /waitReplicas cannot be used with connection: \{ quorum \}/],
    [{ renewFrom: 'worker' }, /renewFrom: 'worker' cannot be used with connection: \{ quorum \}/],
    [{ leaseMs: 10_000, rejoinAfterMs: 9_000 }, /leaseMs 10000 is longer than rejoinAfterMs 9000/],
    [{ rejoinAfterMs: -1 }, /connection.rejoinAfterMs.*at least 0/],
  ])('refuses %j at the start [G53]', async (options, message) => {
    await expect(start(options)).rejects.toThrow(message);
  });

  it('makes a service that locks [G49]', async () => {
    const locks = await start({ leaseMs: 5_000, firstLeaseMs: 'learned' });
    const key = uniqueKey();
    await locks.withLock(key, async () => {
      expect(await locks.tryAcquire(key, { reentrant: false })).toBeNull();
    });
    expect(await quorum.admins[0]?.exists(`lock:{${key}}`)).toBe(0);
  });

  it('refuses addresses of one server, by its run_id [G53]', async () => {
    const [first = '', second = ''] = quorum.urls;
    const other = first.replace('127.0.0.1', 'localhost');
    const opening = openQuorumLocks([first, second, other === first ? `${first}/1` : other]);
    await expect(opening).rejects.toThrow(LockConfigError);
    await expect(opening).rejects.toThrow(/quorum\[\d\] .* and quorum\[\d\] .* are one server/);
  });

  it('says which node refuses what is needed [G53]', async () => {
    const [first = '', second = '', third = ''] = quorum.urls;
    const rights = ['reset', 'on', '>pw', '~lock:*', '&lock:inbox:*', '+@all', '-evalsha', '-eval'];
    await quorum.admins[1]?.call('ACL', 'SETUSER', 'weak', ...rights);
    const opening = openQuorumLocks([first, second.replace('//', '//weak:pw@'), third]);
    await expect(opening).rejects.toThrow(LockConfigError);
    await expect(opening).rejects.toThrow(/quorum\[1\] \(redis:\/\/weak@.*\): .* lacks rights/);
  });
});

describe('what a quorum cannot do', () => {
  it.each([
    [{ mode: 'shared' }, /mode: 'shared' cannot be used with a quorum/],
    [{ permits: 3 }, /permits cannot be used with a quorum/],
    [{ leaseMs: 20_000 }, /leaseMs 20000 is longer than rejoinAfterMs 1000/],
  ] as const)('is refused before anything is sent: %j [G53]', async (options, message) => {
    const { engine } = await openQuorumLocks(quorum.urls, { leaseMs: 1_000, rejoinAfterMs: 1_000 });
    const key = uniqueKey();
    await expect(engine.acquire(key, options)).rejects.toThrow(LockConfigError);
    await expect(engine.tryAcquire([key, 'b'], options)).rejects.toThrow(message);
    await expect(engine.withLock(key, options, () => 1)).rejects.toThrow(message);
    // A vote would have left a fence.
    for (const admin of quorum.admins)
      expect(await admin.exists(`lock:{${key}}`, `lock:{${key}}:fence`)).toBe(0);
  });

  it('is a hand-over for longer than a node stays without a vote [G53]', async () => {
    const { engine } = await openQuorumLocks(quorum.urls, { leaseMs: 5_000, rejoinAfterMs: 6_000 });
    const lock = await engine.acquire(uniqueKey(), { waitMs: 30_000 });
    await expect(lock.detach({ forMs: 60_000 })).rejects.toThrow(/rejoinAfterMs 6000/);
    expect(lock.isHeld).toBe(true);
    expect(await lock.release()).toBe(true);
  });
});
