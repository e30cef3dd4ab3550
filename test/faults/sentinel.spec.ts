/**
 * Failovers that three real sentinels carry out. What cannot be avoided is measured as well: who holds what while two
 * masters answer. It is one file because its tests share what a failover is looked at with.
 */
import { describe, expect } from '@jest/globals';
import { RedisReplicaSet, type RedisReplicaSetOptions, type RedisServer } from 'dev-servers';
import { Redis } from 'ioredis';
import { Redis as Redis5 } from 'ioredis5';
import type { Lock } from '../../libs/nestjs-locked/src/core/lock.js';
import type { RedisConnectionOptions } from '../../libs/nestjs-locked/src/redis/connection/open-redis.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { fault } from '../support/fault-report.js';
import {
  openAdmin,
  type OpenedLocks,
  openLocksOn,
  type OpenOptions,
} from '../support/open-locks.js';
import { RedisMonitor } from '../support/redis-monitor.js';
import { uniqueKey } from '../support/unique-key.js';

/** Longer than a failover takes: what is tested is where commands go, not how long a lease lasts. */
const PATIENT_LEASE_MS = 15_000;
const LONG_LEASE_MS = 60_000;
const WAIT_MS = 40_000;
/** Bound on what takes milliseconds when the machine is idle. */
const SOON_MS = 3_000;
/** When the old master has been told to follow the new one, at the latest; as a rule it takes ten seconds. */
const DEMOTED_WITHIN_MS = 40_000;

type Measure = (what: string, figure: number, unit?: string) => void;

/** What people pass in. None of it listens to the sentinels but where it says so, and that makes no difference. */
const connections: readonly (readonly [
  string,
  (set: RedisReplicaSet) => RedisConnectionOptions,
])[] = [
  ['options', (set) => addressOf(set)],
  ['ioredis 5', (set) => keep(new Redis5(addressOf(set)))],
  ['ioredis 5 that listens', (set) => keep(new Redis5(listening(set)))],
  ['ioredis 6', (set) => keep(new Redis(addressOf(set)))],
  ['ioredis 6 that listens', (set) => keep(new Redis(listening(set)))],
  ['ioredis 6 for replicas', (set) => keep(new Redis({ ...addressOf(set), role: 'slave' }))],
];

describe('three sentinels', () => {
  fault(
    'planned failover',
    'every kind of client leaves the old master, which goes on taking commands, within seconds',
    async (measure) => {
      const set = await startSet();
      const old = await set.master();
      const seats = await takeSeats(set, old);

      const before = performance.now();
      const failedOver = set.failOver();
      await expectAllToMove(set, old, seats, before, measure);

      await failedOver;
      expect(await roleOf(old)).toBe('master'); // it would still have granted
      const onOld = await RedisMonitor.start(old.port);
      for (const { near } of seats) await (await near.engine.acquire(uniqueKey())).release();
      await expectHandOvers(await set.master(), seats);
      expect(scriptsIn(await onOld.commands())).toEqual([]);
    },
    90_000,
  );

  fault(
    'killed master',
    'every kind of client finds the new one; holders keep their locks, waiters are served by message',
    async (measure) => {
      const set = await startSet();
      const old = await set.master();
      const seats = await takeSeats(set, old);

      const before = performance.now();
      await old.kill();
      await expectAllToMove(set, old, seats, before, measure);

      await expectHandOvers(await set.master(), seats);
    },
    90_000,
  );
});

type Service = OpenedLocks & { readonly inbox: string };

/** A service that holds a lock, and another one that waits for it. */
interface Seat {
  readonly what: string;
  readonly key: string;
  readonly near: Service;
  readonly far: Service;
  readonly lock: Lock;
  readonly waiting: Promise<Lock>;
}

/** A holder and a waiter for each kind of connection, of whom the replica knows. */
async function takeSeats(set: RedisReplicaSet, old: RedisServer): Promise<Seat[]> {
  const onOld = openAdmin(old.url);
  const seats: Seat[] = [];
  for (const [what, connect] of connections) {
    const near = await openLocks(connect(set), { leaseMs: PATIENT_LEASE_MS, waitMs: WAIT_MS });
    const far = await openLocks(connect(set), { leaseMs: LONG_LEASE_MS, waitMs: WAIT_MS });
    const key = uniqueKey();
    const lock = await near.engine.acquire(key);
    const waiting = far.engine.acquire(key);
    waiting.catch(() => {}); // looked at later
    await eventually(async () => expect(await onOld.zcard(`lock:{${key}}:queue`)).toBe(1));
    seats.push({ what, key, near, far, lock, waiting });
  }
  expect(await onOld.wait(1, 20_000)).toBe(1); // what the replica has not got is lost with the failover
  return seats;
}

/** Each holder renews on the new master, each waiter listens there, and nobody has lost anything. */
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
  const onNext = openAdmin(next.url);
  // A promoted server has been renewed by nobody but by the master that it followed.
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
  await eventually(async () => {
    for (const { near, far } of seats) {
      for (const { inbox } of [near, far])
        expect(await onNext.pubsub('NUMSUB', inbox)).toEqual([inbox, 1]);
    }
    last.listening = performance.now();
  }, 30_000);
  measure('all inboxes there after', last.listening - before, 'ms');
  expect(seats.filter(({ lock }) => !lock.isHeld)).toEqual([]);
}

/** Each holder's release lets its waiter in, by a message. */
async function expectHandOvers(next: RedisServer, seats: readonly Seat[]): Promise<void> {
  const monitor = await RedisMonitor.start(next.port);
  for (const { what, near, far, lock, waiting } of seats) {
    const released = performance.now();
    expect([what, await lock.release()]).toEqual([what, true]);
    const entered = await waiting;
    expect(performance.now() - released).toBeLessThan(SOON_MS);
    const messages = (await monitor.commands()).filter(
      ({ source, name, args }) => source === 'lua' && name === 'publish' && args[0] === far.inbox,
    );
    expect([what, messages.length]).toEqual([what, 1]);
    expect(entered.fencingToken).toBeGreaterThan(lock.fencingToken);
    expect(await entered.release()).toBe(true);
    expect(near.events.filter(({ type }) => type === 'lost')).toEqual([]);
  }
}

/** What was asked of a server by scripts, which nobody but our connections sends. */
function scriptsIn(commands: Awaited<ReturnType<RedisMonitor['commands']>>) {
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

/** A lock service; `inbox` is its channel. */
async function openLocks(connection: RedisConnectionOptions, options: OpenOptions) {
  const opened = await openLocksOn(connection, options);
  return { ...opened, inbox: `lock:inbox:${opened.store.processId}` };
}

function keep<C extends { on: (...args: never[]) => unknown; disconnect(): void }>(client: C): C {
  (client as unknown as Redis).on('error', () => {});
  afterTest(() => client.disconnect());
  return client;
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
