/** The rights of a Redis user that docs/installation.md lists: enough on every topology, and none of them too many. */
import { describe, expect, it } from '@jest/globals';
import { RedisReplicaSet } from 'dev-servers';
import type { Redis } from 'ioredis';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import { LockConfigError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import type { RedisConnectionOptions } from '../../libs/nestjs-locked/src/redis/connection/server/open-redis.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { startMasterAndReplica } from '../support/master-and-replica.js';
import { openAdmin, openLocksOn } from '../support/open-locks.js';
import { openReplicatedLocks } from '../support/open-replicated-locks.js';
import { startRedisCluster } from '../support/own-cluster.js';
import { startRedisServer, useRedisServer } from '../support/own-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const LEASE_MS = 2_500;

/** As written on the page: what everybody needs, and what each case needs in addition. */
const page = readFileSync('docs/installation.md', 'utf8');
const [, everybody = ''] = /^ACL SETUSER app on >password (.+)$/m.exec(page) ?? [];
const more = (who: string): string[] => {
  const [, cell = ''] = new RegExp(`^\\| ${who} *\\| \`([^\`]+)\``, 'm').exec(page) ?? [];
  if (cell === '') throw new Error(`docs/installation.md does not say what is needed for ${who}`);
  return cell.replaceAll('\\|', '|').split(' ');
};
const BASE = everybody.split(' ');
const CLUSTER = more('Redis Cluster');
const WAIT = more('`waitReplicas`');
const SELECT = more('a database other than 0 of a single server');

/** The library works without these two, but reports more and does more with them. */
const TOLERATED = ['+info', '+script|load'];

const account = (name: string) => ({ username: name, password: 'secret' });

/** Without INFO, ioredis would warn that it cannot check whether the server is ready. */
const unchecked = (name: string) => ({ ...account(name), enableReadyCheck: false });

/** Creates a user with these rights and no others. */
async function allow(admin: Redis, name: string, rights: readonly string[]): Promise<void> {
  await admin.call('CONFIG', 'SET', 'acllog-max-len', '10000');
  await admin.call('ACL', 'SETUSER', name, 'reset', 'on', '>secret', ...rights);
}

/** Commands that this user was refused. ioredis introduces itself, and continues if that is refused. */
async function refused(admin: Redis, name: string): Promise<string[]> {
  const entries = (await admin.call('ACL', 'LOG', '10000')) as unknown[][];
  const field = (entry: unknown[], of: string): string => String(entry[entry.indexOf(of) + 1]);
  return entries
    .filter((entry) => field(entry, 'username') === name)
    .map((entry) => `${field(entry, 'reason')} ${field(entry, 'object')}`)
    .filter((text) => !/ client\|/.test(text));
}

/** Everything that a lock service does, by two of them, so that each of them waits for the other. */
async function repertoire(one: LockEngine, other: LockEngine, admins: readonly Redis[]) {
  const key = uniqueKey('rights');
  const held = await one.acquire(key, { label: 'told to operators' });
  expect(await other.tryAcquire(key)).toBe(null);
  const waiting = other.acquire(key, { waitMs: 60_000 });
  const given = new AbortController();
  const aborted = other.acquire(key, { waitMs: 60_000, signal: given.signal });
  await sleep(2 * LEASE_MS); // it is renewed, waiters check again, connections are pinged
  given.abort();
  await expect(aborted).rejects.toMatchObject({ code: 'LOCK_ABORTED' });
  expect(await held.release()).toBe(true); // handed over
  const next = await waiting;
  await eventually(() => next.ensureRemaining(2 * LEASE_MS)); // a busy machine may take longer than a command may
  expect(await one.inspect(key)).toMatchObject({ key });
  const listed: string[] = [];
  for await (const info of one.list('*')) listed.push(info.key);
  expect(listed).toContain(key);
  expect(await one.ping()).toBeGreaterThan(0);
  expect(await one.forceRelease(key)).toBe(true);
  await eventually(() => expect(next.signal.aborted).toBe(true));

  const several = await one.acquire([uniqueKey('a'), uniqueKey('b')]);
  expect(await several.release()).toBe(true);
  const kept = await one.acquire(key, { holdAtLeastMs: 100 });
  await kept.release();
  for (const admin of admins) await admin.script('FLUSH'); // scripts are sent whole
  await (await other.acquire(key, { waitMs: 60_000 })).release();
  for (const admin of admins) {
    await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes'); // new connections
    await admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
  }
  const handed = await eventually(() => one.acquire(key));
  const last = other.acquire(key, { waitMs: 60_000 });
  await sleep(LEASE_MS / 2);
  await handed.release();
  await (await last).release();
}

async function opened(connection: RedisConnectionOptions, waitReplicas = 0): Promise<LockEngine> {
  const options = { leaseMs: LEASE_MS, waitMs: 20_000 };
  const { engine } = await (waitReplicas === 0
    ? openLocksOn(connection, options)
    : openReplicatedLocks(connection, { ...options, waitReplicas }));
  return engine;
}

/** Opens two lock services, and lets them do everything. */
async function doAll(
  connection: RedisConnectionOptions,
  admins: readonly Redis[],
  waitReplicas = 0,
): Promise<void> {
  const one = await opened(connection, waitReplicas);
  await repertoire(one, await opened(connection, waitReplicas), admins);
  await one.close(1_000);
}

describe('a user who has the rights of docs/installation.md and no more', () => {
  it('can do everything on a single server', async () => {
    const { url, port } = await startRedisServer();
    const admin = openAdmin(url);
    await allow(admin, 'app', BASE);
    await doAll({ port, ...account('app') }, [admin]);
    expect(await refused(admin, 'app')).toEqual([]);
  });

  it('can do everything in another database', async () => {
    const { url, port } = await startRedisServer();
    const admin = openAdmin(url);
    await allow(admin, 'app', [...BASE, ...SELECT]);
    const engine = await opened({ port, db: 3, ...account('app') });
    await (await engine.acquire(uniqueKey())).release();
    expect(await refused(admin, 'app')).toEqual([]);
  });

  it('can do everything behind Sentinel, before and after a failover', async () => {
    const set = await RedisReplicaSet.start();
    afterTest(() => set.stop());
    const admins = set.servers.map(({ url }) => openAdmin(url));
    for (const admin of admins) await allow(admin, 'app', BASE);
    const connection = { sentinels: [...set.sentinels], name: set.name, ...account('app') };
    await doAll(connection, admins.slice(0, 1));
    const engine = await opened(connection);
    await set.failOver();
    await eventually(async () => (await engine.acquire(uniqueKey())).release(), 25_000);
    for (const admin of admins) expect(await refused(admin, 'app')).toEqual([]);
  });

  it('can do everything with waitReplicas', async () => {
    const { master, onMaster } = await startMasterAndReplica();
    await allow(onMaster, 'app', [...BASE, ...WAIT]);
    await doAll({ port: master.port, ...account('app') }, [onMaster], 1);
    expect(await refused(onMaster, 'app')).toEqual([]);
  });

  it('can do everything in a cluster, even while a slot moves', async () => {
    const cluster = await startRedisCluster({ replicasPerMaster: 0 });
    const admins = cluster.servers.nodes.map(({ url }) => openAdmin(url));
    for (const admin of admins) await allow(admin, 'app', [...BASE, ...CLUSTER]);
    const connection = { ...cluster.connection, redisOptions: account('app') };
    await doAll(connection, admins);
    const [one, other] = [await opened(connection), await opened(connection)];
    const key = uniqueKey();
    const slot = await cluster.slotOf(key);
    const to = await cluster.otherMaster(key);
    const lock = await one.acquire(key);
    const waiting = other.acquire(key, { waitMs: 60_000 });
    await cluster.servers.beginMove(slot, to);
    await cluster.servers.moveKeys(slot);
    await sleep(LEASE_MS); // renewed there, after ASKING
    expect(await callsOf(openAdmin(to.url), 'asking')).toBeGreaterThan(2);
    await cluster.servers.endMove(slot);
    expect(await lock.release()).toBe(true);
    expect(await (await waiting).release()).toBe(true);
    for (const admin of admins) expect(await refused(admin, 'app')).toEqual([]);
  });
});

describe('a user who lacks one of these rights', () => {
  const server = useRedisServer();

  /** The start is refused, and the message names the right. */
  async function isTold(
    admins: readonly Redis[],
    rights: readonly string[],
    missing: string,
    start: (name: string) => Promise<unknown>,
  ): Promise<void> {
    const name = `lacks-${missing.slice(1)}`;
    for (const admin of admins)
      await allow(
        admin,
        name,
        rights.filter((right) => right !== missing),
      );
    const error = await start(name).then(
      () => undefined,
      (reason: unknown) => reason,
    );
    if (!TOLERATED.includes(missing)) {
      expect([missing, error]).toEqual([missing, expect.any(LockConfigError)]);
      expect(String(error)).toContain('the Redis user lacks rights: ');
      expect(`${String(error)} `).toContain(` ${missing} `);
    }
    const denied = await Promise.all(admins.map((admin) => refused(admin, name)));
    expect([missing, denied.flat().length]).not.toEqual([missing, 0]);
  }

  const others = (rights: readonly string[]): string[] =>
    rights.filter((right) => right.startsWith('+'));

  it('does not start on a single server', async () => {
    const { port, admin } = server;
    expect(others(BASE).length).toBeGreaterThan(15);
    for (const missing of others(BASE))
      await isTold([admin], BASE, missing, (name) => opened({ port, ...unchecked(name) }));
    const rights = [...BASE, ...SELECT];
    for (const missing of SELECT)
      await isTold([admin], rights, missing, (name) => opened({ port, db: 3, ...unchecked(name) }));
  });

  it('does not start with waitReplicas', async () => {
    const { master, onMaster } = await startMasterAndReplica();
    for (const missing of WAIT) {
      await isTold([onMaster], [...BASE, ...WAIT], missing, (name) =>
        opened({ port: master.port, ...account(name) }, 1),
      );
    }
  });

  it('does not start in a cluster', async () => {
    const cluster = await startRedisCluster({ replicasPerMaster: 0 });
    const admins = cluster.servers.nodes.map(({ url }) => openAdmin(url));
    const rights = [...BASE, ...CLUSTER];
    for (const missing of others(rights)) {
      await isTold(admins, rights, missing, (name) =>
        opened({ ...cluster.connection, redisOptions: unchecked(name) }),
      );
    }
  });
});

async function callsOf(admin: Redis, command: string): Promise<number> {
  const stats = await admin.info('commandstats');
  return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
}
