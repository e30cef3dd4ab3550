/**
 * Failovers by three real sentinels. The tests also measure what cannot be avoided: who holds which lock while two
 * masters reply. They share one file because they share the helpers that observe a failover.
 */
import { describe, expect } from '@jest/globals';
import {
  RedisReplicaSet,
  type RedisReplicaSetOptions,
  type RedisSentinel,
  type RedisServer,
} from 'dev-servers';
import { Redis } from 'ioredis';
import { Redis as Redis5 } from 'ioredis5';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import {
  LockNotAcquiredError,
  LockStoreError,
} from '../../libs/nestjs-locked/src/core/lock.errors.js';
import type { Lock } from '../../libs/nestjs-locked/src/core/lock.js';
import type { RedisConnectionOptions } from '../../libs/nestjs-locked/src/redis/connection/server/open-redis.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { concurrentFault, fault, type Measure } from '../support/fault-report.js';
import { keepClient } from '../support/keep-client.js';
import { openAdmin, type OpenedLocks, openLocksOn } from '../support/open-locks.js';
import { type MonitoredCommand, RedisMonitor } from '../support/redis-monitor.js';
import { uniqueKey } from '../support/unique-key.js';

const APPLICATION = fileURLToPath(
  new URL('../fixtures/live-behind-sentinels.mjs', import.meta.url),
);
/** Longer than a failover, because these tests check where commands go, not when leases expire. */
const PATIENT_LEASE_MS = 30_000;
const LONG_LEASE_MS = 60_000;
/** The lease of a process that only the old master answers. */
const PARTED_LEASE_MS = 3_000;
const WAIT_MS = 100_000;
/** Upper bound for what takes milliseconds on an idle machine. */
const SOON_MS = 3_000;
/** Upper bound for the time after which the old master is told to follow the new one, usually 10 s. */
const DEMOTED_WITHIN_MS = 40_000;

/**
 * What users may pass as `connection`. A client subscribes to the sentinels only if its name says so; this must make no
 * difference.
 */
const connections: readonly (readonly [
  string,
  (set: RedisReplicaSet) => RedisConnectionOptions,
])[] = [
  ['options', (set) => addressOf(set)],
  ['ioredis 5', (set) => keepClient(new Redis5(addressOf(set)))],
  ['ioredis 5 that listens', (set) => keepClient(new Redis5(listening(set)))],
  ['ioredis 6', (set) => keepClient(new Redis(addressOf(set)))],
  ['ioredis 6 that listens', (set) => keepClient(new Redis(listening(set)))],
  ['ioredis 6 for replicas', (set) => keepClient(new Redis({ ...addressOf(set), role: 'slave' }))],
];

describe('three sentinels', () => {
  fault(
    'planned failover',
    'every kind of client leaves the old master, which still accepts commands, within seconds [G15]',
    async (measure) => {
      const set = await startSet();
      const old = await set.master();
      const seats = await takeSeats(set, old);

      const before = performance.now();
      const failedOver = set.failOver();
      failedOver.catch(() => {}); // awaited later
      await expectAllToMove(set, old, seats, before, measure);

      await failedOver;
      await measureRole(old, measure);
      const onOld = await RedisMonitor.start(old.port);
      for (const { near } of seats) await (await near.engine.acquire(uniqueKey())).release();
      await expectHandOvers(await set.master(), seats);
      expect(scriptsIn(await onOld.commands())).toEqual([]);
    },
  );

  concurrentFault(
    'killed master',
    'every kind of client finds the new one; holders keep their locks, waiters are served soon [G16]',
    async (measure) => {
      const set = await startSet();
      const old = await set.master();
      const seats = await takeSeats(set, old);

      const before = performance.now();
      await old.kill();
      await expectAllToMove(set, old, seats, before, measure);

      await expectHandOvers(await set.master(), seats);
    },
  );

  fault(
    'stopped master that goes on after the failover',
    'nobody gets what it then grants to a command in flight; it is sent nothing new [G17]',
    async (measure) => {
      const set = await startSet();
      const old = await set.master();
      const seats = await takeSeats(set, old);
      // A command times out after 1 s, before there is another master.
      const late = await openLocksOn(addressOf(set), { leaseMs: 3_000 });
      const rival = await openLocksOn(addressOf(set), { leaseMs: LONG_LEASE_MS, waitMs: WAIT_MS });
      const key = uniqueKey();

      const before = performance.now();
      old.pause();
      await expect(late.engine.acquire(key, { waitMs: 1_500 })).rejects.toThrow(LockStoreError);
      await expectAllToMove(set, old, seats, before, measure);
      const next = await set.successorOf(old);
      const held = await rival.engine.acquire(key);

      const continued = performance.now();
      old.resume();
      const onOld = openAdmin(old.url);
      await eventually(async () => expect(await onOld.get(`lock:{${key}}`)).not.toBeNull(), 3_000);
      const [grant, real] = [
        await onOld.get(`lock:{${key}}`),
        await openAdmin(next.url).get(`lock:{${key}}`),
      ];
      expect(grant).toContain(late.store.processId); // it has granted the earlier request
      expect(real).toContain(rival.store.processId);
      expect(held.isHeld).toBe(true);

      // All clients have moved, so none sends it a command while it still acts as the master.
      const monitor = await RedisMonitor.start(old.port);
      await expectHandOvers(next, seats);
      await eventually(() =>
        expect(late.engine.acquire(key, { waitMs: 0 })).rejects.toThrow(LockNotAcquiredError),
      );
      expect(await held.release()).toBe(true);
      const entered = await late.engine.acquire(key);
      expect(entered.fencingToken).toBeGreaterThan(held.fencingToken);
      expect(scriptsIn(await monitor.commands())).toEqual([]);
      await measureRole(old, measure);

      await eventually(async () => expect(await roleOf(old)).toBe('slave'), DEMOTED_WITHIN_MS);
      measure('two masters for', performance.now() - continued, 'ms');
      expect(entered.isHeld).toBe(true);
      expect(await entered.release()).toBe(true);
    },
  );

  /** A holder that reaches only the old master, as in a network partition, and a waiter that follows the sentinels. */
  async function partedFrom(set: RedisReplicaSet, old: RedisServer) {
    const parted = await openLocksOn(old.url, { leaseMs: PARTED_LEASE_MS, waitMs: 0 });
    const other = await openLocksOn(addressOf(set), { leaseMs: LONG_LEASE_MS, waitMs: WAIT_MS });
    const key = uniqueKey();
    const lock = await parted.engine.acquire(key);
    const lostAt = new Promise<number>((tell) =>
      lock.signal.addEventListener('abort', () => tell(performance.now())),
    );
    const onOld = openAdmin(old.url);
    const entered = other.engine.acquire(key).then((got) => ({ got, at: performance.now() }));
    entered.catch(() => {}); // awaited later
    await eventually(async () => expect(await onOld.zcard(`lock:{${key}}:queue`)).toBe(1));
    expect(await onOld.wait(set.servers.length - 1, 20_000)).toBe(set.servers.length - 1);
    return { parted, lock, lostAt, entered };
  }

  concurrentFault(
    'a process that keeps using the old master, which the sentinels have left',
    'two hold the lock until the old master steps down; the fence is correct, and the first one learns of it [G19]',
    async (measure) => {
      const set = await startSet();
      const old = await set.master();
      const { parted, lock, lostAt, entered } = await partedFrom(set, old);

      await set.failOver();
      const second = await entered;
      expect(lock.isHeld).toBe(true);
      expect(second.got.fencingToken).toBeGreaterThan(lock.fencingToken);
      await (await parted.engine.acquire(uniqueKey())).release(); // it grants new locks as well

      measure('two held it for', (await lostAt) - second.at, 'ms');
      expect(await roleOf(old)).toBe('slave');
      expect(second.got.isHeld).toBe(true);
      expect(await second.got.release()).toBe(true);
    },
  );

  const strict = ['--min-replicas-to-write', '1', '--min-replicas-max-lag', '2'];

  concurrentFault(
    'the same with min-replicas-to-write 1 and two replicas',
    'the old master refuses renewals once both have left it: two hold the lock for a lease at most [G20]',
    async (measure) => {
      const set = await startSet({ replicas: 2, args: strict });
      const old = await set.master();
      const { parted, lock, lostAt, entered } = await partedFrom(set, old);

      const before = performance.now();
      await set.failOver();
      const second = await entered;
      measure('the next one in after', second.at - before, 'ms');
      const lost = await lostAt;
      measure('two held it for', Math.max(0, lost - second.at), 'ms');
      await measureRole(old, measure);
      expect(lost - second.at).toBeLessThan(PARTED_LEASE_MS);
      expect(second.got.fencingToken).toBeGreaterThan(lock.fencingToken);
      await expect(parted.engine.acquire(uniqueKey())).rejects.toThrow(/NOREPLICAS/);
      expect(await second.got.release()).toBe(true);
    },
  );

  concurrentFault(
    'the same with min-replicas-to-write 1 and one replica',
    'nobody enters before the old master follows: there are never two [G21]',
    async (measure) => {
      const set = await startSet({ args: strict });
      const old = await set.master();
      const { lock, lostAt, entered } = await partedFrom(set, old);

      const before = performance.now();
      await set.failOver();
      const second = await entered;
      measure('the next one in after', second.at - before, 'ms');
      expect(lock.isHeld).toBe(false);
      expect(await lostAt).toBeLessThan(second.at);
      expect(await roleOf(old)).toBe('slave');
      expect(await second.got.release()).toBe(true);
    },
  );

  concurrentFault(
    'stopped master that accepts no new connections, and continues after the failover',
    'connections that were being opened to it are given up, and lead to the new one',
    async (measure) => {
      const set = await startSet({ args: ['--tcp-backlog', '1'] });
      const old = await set.master();
      // A command times out after 1 s. Its connection is replaced while the sentinels still report the old master.
      const { engine } = await openLocksOn(addressOf(set), { leaseMs: 3_000, waitMs: 1_000 });
      await (await engine.acquire(uniqueKey())).release();
      old.pause();
      for (let count = 1; count <= 8; count += 1) openAdmin(old.url);
      await expect(engine.acquire(uniqueKey())).rejects.toThrow(LockStoreError);

      await set.successorOf(old);
      const before = performance.now();
      old.resume(); // and accepts the connections in its backlog
      const monitor = await RedisMonitor.start(old.port);
      const next = openAdmin((await set.master()).url);
      await eventually(async () => {
        const key = uniqueKey();
        const lock = await engine.acquire(key);
        const isThere = await next.exists(`lock:{${key}}`);
        await lock.release();
        expect(isThere).toBe(1);
      });
      measure('locks after', performance.now() - before, 'ms');
      expect(scriptsIn(await monitor.commands())).toEqual([]);
      await measureRole(old, measure);
    },
  );

  concurrentFault(
    'READONLY, when no sentinel has reported a failover',
    'the connections leave the demoted master, and ask the sentinels for the new one',
    async (measure) => {
      const set = await startSet();
      const old = await set.master();
      const deaf = { ...addressOf(set), sentinelMaxConnections: 0 };
      const { engine, inbox, events } = await openLocksOn(deaf, { leaseMs: 15_000 });
      const lock = await engine.acquire(uniqueKey());
      expect(await openAdmin(old.url).wait(1, 20_000)).toBe(1);

      const next = await set.failOver();
      // A sentinel would do this later, and close all connections.
      await openAdmin(old.url).replicaof('127.0.0.1', next.port);
      const before = performance.now();
      const onNext = openAdmin(next.url);
      await eventually(async () =>
        expect(await onNext.pubsub('NUMSUB', inbox)).toEqual([inbox, 1]),
      );
      measure('moved after', performance.now() - before, 'ms');
      expect(await lock.release()).toBe(true);
      expect(events.filter(({ type }) => type === 'lost')).toEqual([]);
    },
  );

  fault(
    'sentinels restarted one after the other',
    'the locks listen to them again, and follow a planned failover that comes soon after [D5]',
    async (measure) => {
      const set = await startSet();
      const old = await set.master();
      const seats = await takeSeats(set, old);
      for (const sentinel of set.watchers) await sentinel.restart();
      await listenedTo(set, seats);

      const before = performance.now();
      const failedOver = set.failOver();
      failedOver.catch(() => {}); // awaited later
      await expectAllToMove(set, old, seats, before, measure);
      await failedOver;
      await measureRole(old, measure);
      await expectHandOvers(await set.master(), seats);
    },
  );

  const withoutOne = (trouble: 'kill' | 'pause') => async (measure: Measure) => {
    const set = await startSet();
    const old = await set.master();
    const sentinel = set.watchers[0] as RedisSentinel;
    afterTest(() => sentinel.resume());
    await sentinel[trouble]();
    const seats = await takeSeats(set, old);

    const before = performance.now();
    await old.kill();
    await expectAllToMove(set, old, seats, before, measure);
    await expectHandOvers(await set.successorOf(old), seats);
  };
  const ofOne = 'a new application starts, and the locks follow a killed master';
  concurrentFault('one sentinel gone [G16]', ofOne, withoutOne('kill'));
  concurrentFault('one sentinel frozen [G16]', ofOne, withoutOne('pause'));

  fault(
    'all sentinels gone, and back',
    'locks work meanwhile, even for longer than a lease; a failover after that is followed [D6, G22]',
    async (measure) => {
      const set = await startSet();
      const old = await set.master();
      const seats = await takeSeats(set, old);
      const brief = await openLocksOn(addressOf(set), { leaseMs: 1_000 });
      const renewed = await brief.engine.acquire(uniqueKey());

      await Promise.all(set.watchers.map((sentinel) => sentinel.kill()));
      const monitor = await RedisMonitor.start(old.port);
      let renewals = 0;
      await eventually(async () => {
        const scripts = scriptsIn(await monitor.commands());
        renewals += scripts.filter(({ args }) => args.includes(`lock:{${renewed.key}}`)).length;
        expect(renewals).toBeGreaterThan(4); // one after each third of a lease
      });
      expect(renewed.isHeld).toBe(true);
      expect(await renewed.release()).toBe(true);
      await (await brief.engine.acquire(uniqueKey())).release();
      const [first, ...others] = seats as [Seat, ...Seat[]];
      await expectHandOvers(old, [first]);
      expect(brief.events).toEqual([]);

      await Promise.all(set.watchers.map((sentinel) => sentinel.restart()));
      await listenedTo(set, others);
      const before = performance.now();
      const failedOver = set.failOver();
      failedOver.catch(() => {}); // awaited later
      await expectAllToMove(set, old, others, before, measure);
      await failedOver;
      await expectHandOvers(await set.master(), others);
    },
  );

  concurrentFault(
    'an application whose sentinels are gone',
    'prints nothing, and ends normally',
    async () => {
      const set = await startSet();
      // A separate process, because ioredis prints only what it recognizes as an error, and does not recognize the
      // errors of Node inside Jest.
      const program = spawn(process.execPath, [APPLICATION, JSON.stringify(addressOf(set))]);
      afterTest(() => program.kill('SIGKILL'));
      let printed = '';
      program.stderr.on('data', (data) => (printed += String(data)));
      const ended = once(program, 'exit');
      await once(program.stdout, 'data');

      await Promise.all(set.watchers.map((sentinel) => sentinel.kill()));
      await sleep(2_000); // several attempts to connect to each of them
      program.stdin.end();

      expect(await ended).toEqual([0, null]);
      expect(printed).toBe('');
    },
  );

  concurrentFault(
    'closing, even while a sentinel is away',
    'leaves no connection to a sentinel behind',
    async () => {
      const set = await startSet();
      const [first] = set.watchers as [RedisSentinel];
      const one = await openLocksOn(addressOf(set));
      const other = await openLocksOn(addressOf(set));
      const listeners = async (): Promise<number[]> => Promise.all(set.sentinels.map(listenersOf));
      await eventually(async () => expect(await listeners()).toEqual([4, 4, 4]));

      await one.engine.close(0);
      const admin = openAdmin((await set.master()).url);
      expect(await admin.pubsub('NUMSUB', one.inbox)).toEqual([one.inbox, 0]);
      await eventually(async () => expect(await listeners()).toEqual([2, 2, 2]));

      await first.kill();
      await other.engine.close(0);
      await first.restart();
      await eventually(async () => expect(await listeners()).toEqual([0, 0, 0]));
      await sleep(2_000); // another subscription to the first one would have been made by now
      expect(await listeners()).toEqual([0, 0, 0]);
    },
  );
});

/** The number of connections that are subscribed to a sentinel. */
async function listenersOf({ port }: { readonly port: number }): Promise<number> {
  const redis = new Redis({ port });
  try {
    const list = String(await redis.call('CLIENT', 'LIST', 'TYPE', 'pubsub'));
    return list.split('\n').filter((line) => line.includes('sub=1')).length;
  } finally {
    redis.disconnect();
  }
}

/** Waits until all connections of the seats are subscribed to every sentinel: two for each of two services. */
async function listenedTo(set: RedisReplicaSet, seats: readonly Seat[]): Promise<void> {
  for (const sentinel of set.sentinels) {
    await eventually(async () =>
      expect(await listenersOf(sentinel)).toBeGreaterThanOrEqual(seats.length * 4),
    );
  }
}

type Service = OpenedLocks & { readonly inbox: string };

/** A service that holds a lock, and another that waits for it. */
interface Seat {
  readonly what: string;
  readonly key: string;
  readonly near: Service;
  readonly far: Service;
  readonly lock: Lock;
  readonly waiting: Promise<Lock>;
}

/** Starts a holder and a waiter for each kind of connection, and waits until the replica has both. */
async function takeSeats(set: RedisReplicaSet, old: RedisServer): Promise<Seat[]> {
  const onOld = openAdmin(old.url);
  const seats: Seat[] = [];
  for (const [what, connect] of connections) {
    const near = await openLocksOn(connect(set), { leaseMs: PATIENT_LEASE_MS, waitMs: WAIT_MS });
    const far = await openLocksOn(connect(set), { leaseMs: LONG_LEASE_MS, waitMs: WAIT_MS });
    const key = uniqueKey();
    const lock = await near.engine.acquire(key);
    const waiting = far.engine.acquire(key);
    waiting.catch(() => {}); // awaited later
    await eventually(async () => expect(await onOld.zcard(`lock:{${key}}:queue`)).toBe(1));
    seats.push({ what, key, near, far, lock, waiting });
  }
  expect(await onOld.wait(1, 20_000)).toBe(1); // a write that the replica lacks is lost in the failover
  return seats;
}

/** Waits until each holder renews on the new master and each waiter is subscribed there. No lock may be lost. */
async function expectAllToMove(
  set: RedisReplicaSet,
  old: RedisServer,
  seats: readonly Seat[],
  before: number,
  measure: Measure,
): Promise<void> {
  const next = set.servers.find((server) => server !== old) as RedisServer;
  await eventually(async () => expect(await roleOf(next)).toBe('master'));
  measure('promoted after', performance.now() - before, 'ms');
  // So far, the promoted server has received renewals only from its former master.
  const monitor = await RedisMonitor.start(next.port);
  const left = new Set(seats);
  const last = { renewed: 0, listening: 0 };
  await eventually(async () => {
    const scripts = scriptsIn(await monitor.commands());
    for (const seat of left) {
      if (scripts.some(({ args }) => args.includes(`lock:{${seat.key}}`))) left.delete(seat);
    }
    expect([...left].map(({ what }) => what)).toEqual([]);
    last.renewed = performance.now();
  }, 30_000);
  measure('all holders renewed after', last.renewed - before, 'ms');
  await expectToListen(next, seats);
  last.listening = performance.now();
  measure('all inboxes there after', last.listening - before, 'ms');
  expect(seats.filter(({ lock }) => !lock.isHeld)).toEqual([]);
}

/** Waits until each holder and each waiter is subscribed on the new master, and each waiter is in the queue there. */
async function expectToListen(next: RedisServer, seats: readonly Seat[]): Promise<void> {
  const onNext = openAdmin(next.url);
  await eventually(async () => {
    for (const { near, far, key } of seats) {
      for (const { inbox } of [near, far])
        expect(await onNext.pubsub('NUMSUB', inbox)).toEqual([inbox, 1]);
      // A waiter may have been dropped as dead before it was subscribed. It has more than one entry if the old master
      // gave it a new token that the replica never received.
      expect(await onNext.zcard(`lock:{${key}}:queue`)).toBeGreaterThan(0);
    }
  }, 30_000);
}

/**
 * Asserts that each holder's release lets its waiter enter long before a waiter without messages polls. Other specs
 * show that a message does it. This one cannot, because the sentinels learn of a failover one after the other, and each
 * of their reports makes ioredis reconnect, after which waiters recheck.
 */
async function expectHandOvers(next: RedisServer, seats: readonly Seat[]): Promise<void> {
  await expectToListen(next, seats);
  for (const { what, near, lock, waiting } of seats) {
    const released = performance.now();
    expect([what, await lock.release()]).toEqual([what, true]);
    const entered = await waiting;
    expect(performance.now() - released).toBeLessThan(SOON_MS);
    expect(entered.fencingToken).toBeGreaterThan(lock.fencingToken);
    expect(await entered.release()).toBe(true);
    expect(near.events.filter(({ type }) => type === 'lost')).toEqual([]);
  }
}

/** The scripts that a server has run. Only the connections under test send any. */
function scriptsIn(commands: readonly MonitoredCommand[]) {
  return commands.filter(({ name }) => name === 'evalsha' || name === 'eval');
}

async function startSet(options?: RedisReplicaSetOptions): Promise<RedisReplicaSet> {
  const set = await RedisReplicaSet.start(options);
  afterTest(() => set.stop());
  return set;
}

function addressOf(set: RedisReplicaSet) {
  return { sentinels: set.sentinels, name: set.name };
}

function listening(set: RedisReplicaSet) {
  return { ...addressOf(set), failoverDetector: true };
}

/**
 * Records the role of the old master. Only a master would have granted the request; on a busy machine, it may follow
 * the new one by now.
 */
async function measureRole(old: RedisServer, measure: Measure): Promise<void> {
  measure('the old one was at the end', await roleOf(old));
}

async function roleOf({ url }: RedisServer): Promise<string> {
  const redis = new Redis(url, { retryStrategy: () => null });
  redis.on('error', () => {});
  try {
    const [role] = (await redis.role()) as [string];
    return role;
  } finally {
    redis.disconnect();
  }
}
