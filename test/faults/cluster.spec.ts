/** Operations on, and failures of, a Redis Cluster under load. A register records who enters each key. */
import { describe, expect } from '@jest/globals';
import { RedisServer } from 'dev-servers';
import type { Redis } from 'ioredis';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { LockEvent } from '../../libs/nestjs-locked/src/core/lock-events.js';
import { hashSlot } from '../../libs/nestjs-locked/src/redis/cluster/hash-slot.js';
import { afterTest } from '../support/after-test.js';
import { ClusterLoad, Register } from '../support/cluster-load.js';
import { eventually } from '../support/eventually.js';
import { fault } from '../support/fault-report.js';
import { openAdmin, openLocksOn } from '../support/open-locks.js';
import { type OwnCluster, startRedisCluster } from '../support/own-cluster.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { uniqueKey } from '../support/unique-key.js';

const IS_LONG = process.env['FAULTS_LONG'] === '1';
const LEASE_MS = 3_000;
const PATIENT_MS = 60_000;

/** Keeps a master without slots from becoming a replica. */
const STAYS_MASTER = ['--cluster-allow-replica-migration', 'no'];

const run = promisify(execFile);
const types = (events: readonly LockEvent[]): string[] => events.map(({ type }) => type);

/** Returns `count` keys whose slots lie between `first` and `last`. */
function keysIn(first: number, last: number, count: number): string[] {
  const keys: string[] = [];
  while (keys.length < count) {
    const key = uniqueKey();
    const slot = hashSlot(`lock:{${key}}`);
    if (slot >= first && slot <= last) keys.push(key);
  }
  return keys;
}

async function startLoad(cluster: OwnCluster, keys: readonly string[]): Promise<ClusterLoad> {
  const opened = await Promise.all(
    [1, 2, 3].map(() => cluster.openLocks({ leaseMs: LEASE_MS, localHandovers: 2 })),
  );
  return new ClusterLoad(
    opened.map(({ engine }) => engine),
    keys,
  );
}

/** Runs `redis-cli --cluster` as an operator does. */
async function cli(...args: string[]): Promise<string> {
  const running = run('redis-cli', ['--cluster', ...args], { timeout: 60_000 });
  const { stdout } = await running.catch((error: { stdout: string }) => {
    throw new Error(`redis-cli --cluster ${args.join(' ')}: ${error.stdout}`);
  });
  return stdout;
}

/** Starts a node that belongs to no cluster. Its bus port is its port plus 10,000. */
async function startNode(): Promise<RedisServer> {
  for (;;) {
    const port = 23_000 + Math.floor(Math.random() * 9_000);
    if (!(await isFree(port)) || !(await isFree(port + 10_000))) continue;
    const args = [
      '--cluster-enabled',
      'yes',
      '--cluster-announce-ip',
      '127.0.0.1',
      ...STAYS_MASTER,
    ];
    const node = await RedisServer.start({ port, args });
    afterTest(() => node.stop());
    return node;
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer().once('error', () => resolve(false));
    probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)));
  });
}

async function idOf(node: RedisServer): Promise<string> {
  return String(await openAdmin(node.url).cluster('MYID'));
}

/** The line about node `id` in the CLUSTER NODES of `node`; undefined if there is none. */
async function seenFrom(node: RedisServer, id: string): Promise<string | undefined> {
  const lines = String(await openAdmin(node.url).cluster('NODES')).split('\n');
  return lines.find((line) => line.startsWith(id));
}

describe('operations under load', () => {
  fault(
    'add-node, reshard, rebalance and del-node of redis-cli',
    'two callers are never inside at once, numbers rise, and every key is locked again after each step',
    async (measure) => {
      const cluster = await startRedisCluster({ replicasPerMaster: 0, args: STAYS_MASTER });
      const [first] = cluster.servers.nodes as [RedisServer];
      const moving = keysIn(0, 99, 4);
      const load = await startLoad(cluster, [...moving, ...keysIn(0, 16_383, 4)]);
      await load.goesOn();
      const at = `127.0.0.1:${first.port}`;
      const fresh = await startNode();
      await cli('add-node', `127.0.0.1:${fresh.port}`, at);
      const freshId = await idOf(fresh);
      const all = [...cluster.servers.nodes, fresh];
      await eventually(async () => {
        for (const node of all) expect(await seenFrom(node, freshId)).toBeDefined();
        expect(String(await openAdmin(fresh.url).cluster('INFO'))).toContain('cluster_state:ok');
      });

      const slots = IS_LONG ? '3000' : '150';
      const which = ['--cluster-from', await idOf(first), '--cluster-to', freshId];
      await cli('reshard', at, ...which, '--cluster-slots', slots, '--cluster-yes');
      expect(await seenFrom(first, freshId)).toMatch(new RegExp(` 0-${Number(slots) - 1}$`));
      await load.goesOn();
      const calls = await openAdmin(fresh.url).info('commandstats');
      expect(Number(/cmdstat_evalsha:calls=(\d+)/.exec(calls)?.[1])).toBeGreaterThan(0);

      await eventually(() => cli('check', at), PATIENT_MS); // every node knows the last slot move
      await cli('rebalance', at, '--cluster-weight', `${freshId}=0`);
      expect(await seenFrom(first, freshId)).toMatch(/ connected$/); // it has no slots left
      await load.goesOn();
      await cli('del-node', at, freshId);
      expect(await seenFrom(first, freshId)).toBe(undefined);
      await load.goesOn();
      await load.end();
      measure('holds', load.holds);
      expect(load.register.overlaps).toEqual([]);
      expect(load.register.fallen).toEqual([]);
    },
  );

  fault(
    'CLUSTER FAILOVER FORCE, then TAKEOVER, then a master whose port another server takes',
    'two callers are never inside at once, except with locks that a failover had not copied; numbers rise; the other server gets nothing [G44]',
    async (measure) => {
      const cluster = await startRedisCluster({ nodeTimeoutMs: 2_000 });
      const masters = await cluster.servers.masters();
      const keys = [
        ...keysIn(0, 5_460, 4),
        ...keysIn(5_461, 10_922, 4),
        ...keysIn(10_923, 16_383, 4),
      ];
      const owners = await Promise.all(keys.map((key) => cluster.masterOf(key)));
      expect(new Set(owners).size).toBe(3);
      const load = await startLoad(cluster, keys);
      await load.goesOn();
      const orders: number[] = [];
      for (const [i, how] of ['FORCE', 'TAKEOVER'].entries()) {
        const [replica] = (await cluster.servers.replicasOf(masters[i] as RedisServer)) as [
          RedisServer,
        ];
        orders.push(performance.now());
        await openAdmin(replica.url).call('CLUSTER', 'FAILOVER', how);
        await eventually(async () => {
          expect(await cluster.servers.masters()).toContain(replica);
          expect(await cluster.servers.masters()).not.toContain(masters[i]);
        }, PATIENT_MS);
        await load.goesOn();
      }
      const third = masters[2] as RedisServer;
      const [heir] = (await cluster.servers.replicasOf(third)) as [RedisServer];
      orders.push(performance.now());
      await third.kill();
      const strange = await RedisServer.start({ port: third.port });
      afterTest(() => strange.stop());
      await eventually(
        async () => expect(await cluster.servers.masters()).toContain(heir),
        PATIENT_MS,
      );
      await load.goesOn();
      expect(await openAdmin(strange.url).dbsize()).toBe(0);
      await load.end();
      measure('holds', load.holds);
      measure('inside with another one after a forced failover', load.register.overlaps.length);
      const afterFailover = (at: number): boolean =>
        orders.some((order) => at >= order && at <= order + LEASE_MS + 5_000);
      expect(load.register.overlaps.filter(({ at }) => !afterFailover(at))).toEqual([]);
      expect(load.register.fallen).toEqual([]);
    },
  );
});

describe('accidents of a cluster', () => {
  fault(
    'thousands of locks held over a failover',
    'all of them are kept, nobody enters, and all are released',
    async (measure) => {
      const cluster = await startRedisCluster({ nodeTimeoutMs: 2_000 });
      const near = await cluster.openLocks({ leaseMs: 15_000, waitMs: 60_000 });
      const far = await cluster.openLocks({ leaseMs: 15_000 });
      const count = IS_LONG ? 12_000 : 2_000;
      const keys = Array.from({ length: count }, () => uniqueKey());
      const locks = await Promise.all(keys.map((key) => near.engine.acquire(key)));
      const [victim] = (await cluster.servers.masters()) as [RedisServer];
      await openAdmin(victim.url).wait(1, 2_000);
      const there = (
        await Promise.all(keys.slice(0, 60).map((key) => cluster.masterOf(key)))
      ).flatMap((master, i) => (master === victim ? [keys[i] as string] : []));
      expect(there.length).toBeGreaterThan(3);

      const killed = performance.now();
      await victim.kill();
      await eventually(() => expect(types(near.events)).toContain('store-back'), PATIENT_MS);
      measure('reached again after', performance.now() - killed, 'ms');
      await locks[0]?.ensureRemaining(10_000);
      const rivals = there.map((key) => far.engine.acquire(key, { waitMs: 1_000 }).catch(String));
      expect(await Promise.all(rivals)).toEqual(
        there.map(() => expect.stringMatching(/^(LockNotAcquiredError|LockStoreError)/)),
      );
      await sleep(Math.max(0, killed + 16_000 - performance.now())); // a lease without a renewal has ended by now
      expect(locks.filter(({ isHeld }) => !isHeld)).toEqual([]);
      const released = await Promise.all(locks.map((lock) => lock.release()));
      expect(released.filter((was) => !was)).toEqual([]);
      expect(types(near.events)).not.toContain('lost');
      for (const key of there) {
        const next = await far.engine.acquire(key);
        expect(next.fencingToken).toBeGreaterThan(
          (locks[keys.indexOf(key)] as { fencingToken: number }).fencingToken,
        );
        await next.release();
      }
      measure('locks kept', count);
    },
  );

  fault(
    'a network that drops everything between one process and one master',
    'that process loses its locks there in time, and only those; the next one enters after it has been told',
    async (measure) => {
      const cluster = await startRedisCluster({ replicasPerMaster: 0, nodeTimeoutMs: 60_000 });
      const proxies = new Map<number, TcpProxy>();
      const natMap: Record<string, { host: string; port: number }> = {};
      for (const { port } of cluster.servers.nodes) {
        const proxy = await TcpProxy.start(port);
        proxies.set(port, proxy);
        natMap[`127.0.0.1:${port}`] = { host: '127.0.0.1', port: Number(new URL(proxy.url).port) };
      }
      const connection = { cluster: Object.values(natMap), natMap };
      const cutOff = await openLocksOn(connection, { leaseMs: LEASE_MS });
      const well = await cluster.openLocks({ leaseMs: LEASE_MS, waitMs: 20_000 });
      const key = uniqueKey();
      const master = await cluster.masterOf(key);
      let [elsewhere, another] = [uniqueKey(), uniqueKey()];
      while ((await cluster.masterOf(elsewhere)) === master) elsewhere = uniqueKey();
      while ((await cluster.masterOf(another)) === master) another = uniqueKey();
      const register = new Register();
      const lock = await cutOff.engine.acquire(key);
      const other = await cutOff.engine.acquire(elsewhere);
      register.enter(key, lock.fencingToken);
      lock.signal.addEventListener('abort', () => register.leave(key));
      const waiting = well.engine.acquire(key).then((next) => {
        register.enter(key, next.fencingToken);
        return next;
      });

      const proxy = proxies.get(master.port) as TcpProxy;
      const silent = performance.now();
      expect(proxy.silenceAll()).toBeGreaterThanOrEqual(2);
      await eventually(() => expect(lock.signal.aborted).toBe(true));
      measure('told after', performance.now() - silent, 'ms');
      const next = await waiting;
      measure('the next one was in after', performance.now() - silent, 'ms');
      expect(register.overlaps).toEqual([]);
      expect(register.fallen).toEqual([]);
      expect(other.isHeld).toBe(true);
      await other.ensureRemaining(LEASE_MS - 500);
      expect(types(cutOff.events)).toContain('store-lost');
      await expect(cutOff.engine.ping()).rejects.toThrow(/master .* of the cluster/);
      await (await cutOff.engine.acquire(another)).release();

      proxy.heal();
      await eventually(() => expect(types(cutOff.events)).toContain('store-back'), PATIENT_MS);
      expect(await next.release()).toBe(true);
      const again = await cutOff.engine.acquire(key, { waitMs: 10_000 });
      register.leave(key);
      register.enter(key, again.fencingToken);
      expect(register.fallen).toEqual([]);
      expect(await again.release()).toBe(true);
      expect(await other.release()).toBe(true);
    },
  );

  fault(
    'a master that comes back without its data',
    'the holder is told within a renewal, later numbers are higher, and other masters are not affected [G43]',
    async (measure) => {
      const cluster = await startRedisCluster({ replicasPerMaster: 0, nodeTimeoutMs: 60_000 });
      const near = await cluster.openLocks({ leaseMs: LEASE_MS });
      const far = await cluster.openLocks({ leaseMs: LEASE_MS, waitMs: 20_000 });
      const key = uniqueKey();
      const master = await cluster.masterOf(key);
      let elsewhere = uniqueKey();
      while ((await cluster.masterOf(elsewhere)) === master) elsewhere = uniqueKey();
      const lock = await near.engine.acquire(key);
      const other = await near.engine.acquire(elsewhere);
      const register = new Register();
      register.enter(key, lock.fencingToken);
      await master.kill();
      await master.restart();
      // The restarted master has lost the lock. It refuses commands until it has heard from the other nodes.
      const onMaster = openAdmin(master.url);
      await eventually(async () => expect(await onMaster.exists(`lock:{${key}}`)).toBe(0));
      const back = performance.now();
      const next = await far.engine.acquire(key);
      register.enter(key, next.fencingToken);
      await eventually(() => expect(lock.signal.aborted).toBe(true));
      measure('told after', performance.now() - back, 'ms');
      expect(performance.now() - back).toBeLessThan(2 * LEASE_MS);
      expect(register.fallen).toEqual([]);
      expect(await lock.release()).toBe(false);
      expect(next.isHeld).toBe(true);
      expect(await next.release()).toBe(true);
      expect(other.isHeld).toBe(true);
      expect(await other.release()).toBe(true);
    },
  );
});

describe('a cluster with TLS', () => {
  const CERTIFICATES = fileURLToPath(new URL('../fixtures/tls/', import.meta.url));
  const file = (name: string): string => CERTIFICATES + name;

  async function startTlsCluster(): Promise<{ admins: Redis[]; ports: number[] }> {
    const ports: number[] = [];
    const admins: Redis[] = [];
    for (let i = 0; i < 3; i++) {
      let tls = 0;
      while (tls === 0 || !(await isFree(tls)) || !(await isFree(tls + 10_000)))
        tls = 23_000 + Math.floor(Math.random() * 9_000);
      const args = [
        ...['--tls-port', String(tls), '--tls-cluster', 'yes', '--tls-auth-clients', 'no'],
        ...['--tls-cert-file', file('cert.pem'), '--tls-key-file', file('key.pem')],
        ...['--tls-ca-cert-file', file('cert.pem'), '--cluster-enabled', 'yes'],
        ...['--cluster-announce-ip', '127.0.0.1', '--cluster-announce-hostname', 'localhost'],
        ...['--cluster-preferred-endpoint-type', 'hostname'],
      ];
      const node = await RedisServer.start({ args });
      afterTest(() => node.stop());
      ports.push(tls);
      admins.push(openAdmin(node.url));
    }
    for (const [i, admin] of admins.entries()) {
      const [first, last] = [Math.floor((16_384 * i) / 3), Math.floor((16_384 * (i + 1)) / 3) - 1];
      await admin.call('CLUSTER', 'SET-CONFIG-EPOCH', i + 1);
      await admin.call('CLUSTER', 'ADDSLOTSRANGE', first, last);
    }
    for (const admin of admins) {
      for (const port of ports) await admin.call('CLUSTER', 'MEET', '127.0.0.1', port);
    }
    await eventually(async () => {
      for (const admin of admins) {
        const info = String(await admin.cluster('INFO'));
        expect(info).toMatch(/cluster_state:ok[^]*cluster_known_nodes:3/);
      }
    }, PATIENT_MS);
    return { admins, ports };
  }

  fault(
    'a slot moves, and a connection is cut',
    'over encrypted connections, the lock is kept, follows its slot, and is handed over',
    async () => {
      const { admins, ports } = await startTlsCluster();
      const cluster = ports.map((port) => ({ host: 'localhost', port }));
      const tls = { ca: readFileSync(file('cert.pem')) };
      const connection = { cluster, redisOptions: { tls } };
      const one = await openLocksOn(connection, { leaseMs: LEASE_MS });
      const other = await openLocksOn(connection, { leaseMs: LEASE_MS, waitMs: 20_000 });
      const [key = ''] = keysIn(0, 5_000, 1);
      const slot = hashSlot(`lock:{${key}}`);
      const lock = await one.engine.acquire(key);
      const waiting = other.engine.acquire(key);
      const [from, to] = admins as [Redis, Redis];
      await eventually(async () => expect(await from.zcard(`lock:{${key}}:queue`)).toBe(1));
      const [fromId, toId] = [String(await from.cluster('MYID')), String(await to.cluster('MYID'))];
      const asked = async (): Promise<number> => {
        const calls = await to.info('commandstats');
        return Number(/cmdstat_asking:calls=(\d+)/.exec(calls)?.[1] ?? 0);
      };
      const askedBefore = await asked(); // the library also sends ASKING at the start, to check its permission
      await to.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', fromId);
      await from.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', toId);
      for (const found of await from.cluster('GETKEYSINSLOT', slot, 100))
        await from.call('MIGRATE', '127.0.0.1', String(ports[1]), found, 0, 5_000);
      await eventually(async () => expect(await asked()).toBeGreaterThan(askedBefore)); // renewed with ASKING
      await lock.ensureRemaining(LEASE_MS - 500);
      for (const admin of [to, from, admins[2] as Redis])
        await admin.call('CLUSTER', 'SETSLOT', slot, 'NODE', toId);
      await lock.ensureRemaining(LEASE_MS - 100);
      for (const admin of admins) await admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
      await eventually(() => expect(other.store.listensFor(key)).toBe(true));
      expect(await lock.release()).toBe(true);
      const next = await waiting;
      expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
      expect(await next.release()).toBe(true);
      expect(types([...one.events, ...other.events])).not.toContain('lost');
    },
  );
});
