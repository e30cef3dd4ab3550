/** `waitReplicas`: which answers wait until replicas have the write, and which error comes if they do not. */
import { describe, expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { LockConfigError, LockStoreError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { acceptanceLeaseMs } from '../../libs/nestjs-locked/src/core/store/lease-timing.js';
import { STALL_MS } from '../../libs/nestjs-locked/src/core/time/after-silence.js';
import { requiredReplicas } from '../../libs/nestjs-locked/src/redis/connection/server/required-replicas.js';
import { longestWaitMs } from '../../libs/nestjs-locked/src/redis/connection/traffic/wait-command.js';
import { LockScripts } from '../../libs/nestjs-locked/src/redis/scripts/lock-scripts.js';
import { FENCE_KEEP_MS } from '../../libs/nestjs-locked/src/redis/store-defaults.js';
import { describeWithRedis72 } from '../support/describe-if.js';
import { eventually } from '../support/eventually.js';
import {
  startMasterAndReplica,
  timesCalled,
  waitIsInFlight,
} from '../support/master-and-replica.js';
import { openAdmin } from '../support/open-locks.js';
import { connectionsNamed } from '../support/open-redis-store.js';
import { openReplicatedStore } from '../support/open-replicated-locks.js';
import { startRedisServer } from '../support/own-redis.js';
import { RedisMonitor } from '../support/redis-monitor.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { uniqueKey } from '../support/unique-key.js';
import { startWaitAofProxy } from '../support/waitaof-proxy.js';

/** A command may take 1 s, and WAIT a third of it. */
const LEASE_MS = 3_000;
/** A command may take 5 s. */
const LONG_LEASE_MS = 60_000;

/** Those of a store with a long lease. */
const scripts = new LockScripts({
  inCluster: false,
  inboxPrefix: 'lock:inbox:',
  acceptMs: acceptanceLeaseMs(LONG_LEASE_MS),
  fenceKeepMs: FENCE_KEEP_MS,
});

const NOT_ACKNOWLEDGED =
  /Redis did it, but only 0 of 1 replicas have acknowledged it within \d+ ms$/;
const unknown = { kind: 'unknown', cause: { message: expect.stringMatching(NOT_ACKNOWLEDGED) } };

describe('the option', () => {
  it('is a number of replicas, or requires that they write to disk', () => {
    expect(requiredReplicas(0)).toBeUndefined();
    expect(requiredReplicas(2)).toEqual({ replicas: 2, aof: false });
    expect(requiredReplicas({ replicas: 1 })).toEqual({ replicas: 1, aof: false });
    expect(requiredReplicas({ replicas: 1, aof: true })).toEqual({ replicas: 1, aof: true });
    expect(requiredReplicas({ replicas: 0, aof: true })).toBeUndefined();
  });

  it.each<[unknown, string]>([
    ...[-1, 1.5, NaN, '1', null].map((value): [unknown, string] => [
      value,
      'must be a whole number of replicas from 0, or { replicas, aof: true or false }',
    ]),
    [{}, 'Invalid option waitReplicas.replicas: undefined must be a whole number from 0'],
    [{ replicas: '1' }, "Invalid option waitReplicas.replicas: '1' must be a whole number from 0"],
    [{ replicas: 1, aof: 'yes' }, "Invalid option waitReplicas.aof: 'yes' must be true or false"],
    [{ replica: 1 }, "Unknown option 'waitReplicas.replica': did you mean 'replicas'?"],
  ])('%p is refused', (value, message) => {
    expect(() => requiredReplicas(value)).toThrow(LockConfigError);
    expect(() => requiredReplicas(value)).toThrow(message);
  });

  it('leaves time for the commands after a WAIT [R64]', () => {
    expect(longestWaitMs({ replicas: 1, aof: false }, 5_000)).toBe(500);
    expect(longestWaitMs({ replicas: 1, aof: false }, 1_000)).toBe(333);
    expect(longestWaitMs({ replicas: 1, aof: true }, 5_000)).toBe(1_666);
  });
});

describe('at the start', () => {
  it('the start waits for a server with too few replicas, and names it in the end', async () => {
    const server = await startRedisServer();
    const from = performance.now();
    const error = await openReplicatedStore(server.url, LEASE_MS, {
      waitReplicas: 2,
      startMs: 4_000,
    }).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(LockStoreError);
    expect(String(error)).toMatch(
      /Cannot write to the replicas within \d+ ms, at redis:\/\/127.0.0.1:\d+: (?:waitReplicas requires 2, but only 0|Cannot prove the scripts: Redis did it, but only 0 of 2 replicas) have acknowledged (?:it|the write) within 333 ms; start the replicas, see connected_slaves in INFO replication, or ask for fewer in waitReplicas$/,
    );
    expect(performance.now() - from).toBeGreaterThan(3_900);
  });

  it('a replica that comes while the application starts is enough', async () => {
    const args = ['--repl-diskless-sync-delay', '0'];
    const master = await startRedisServer(...args);
    const replica = await startRedisServer(...args);
    const onMaster = openAdmin(master.url);
    const opening = openReplicatedStore(master.url, LONG_LEASE_MS, { startMs: 60_000 });
    await eventually(async () => expect(await timesCalled(onMaster, 'wait')).toBeGreaterThan(0));
    await openAdmin(replica.url).replicaof('127.0.0.1', master.port);
    const { acquire } = await opening;
    await eventually(async () =>
      expect(await acquire(uniqueKey())).toMatchObject({ kind: 'granted' }),
    );
  });

  it('a user who may not WAIT gets an error that names the right', async () => {
    const { onMaster, master } = await startMasterAndReplica();
    await onMaster.call('ACL', 'SETUSER', 'app', 'on', '>secret', '~*', '&*', '+@all', '-wait');
    const connection = {
      host: '127.0.0.1',
      port: master.port,
      username: 'app',
      password: 'secret',
    };
    const error = await openReplicatedStore(connection, LEASE_MS).catch(
      (reason: unknown) => reason,
    );
    expect(error).toBeInstanceOf(LockConfigError);
    expect(String(error)).toMatch(
      /Cannot write to the replicas: the Redis user lacks rights: .* \+wait$/,
    );
  });

  it('a server without WAITAOF is refused if replicas must write to disk', async () => {
    const { master, onMaster } = await startMasterAndReplica();
    const isKnown = ((await onMaster.call('COMMAND', 'INFO', 'WAITAOF')) as unknown[])[0] !== null;
    const waitReplicas = { replicas: 1, aof: true };
    const opening = openReplicatedStore(master.url, LEASE_MS, { waitReplicas, startMs: 1_000 });
    if (isKnown) return void (await opening.catch(() => {}));
    const error = await opening.catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(LockConfigError);
    expect(String(error)).toContain('this server does not know WAITAOF; use Redis 7.2 or newer');
  });
});

describe('answers', () => {
  it('without waitReplicas, nobody waits for replicas', async () => {
    const { master, replica, onMaster } = await startMasterAndReplica();
    const { acquire } = await openReplicatedStore(master.url, LEASE_MS, { waitReplicas: 0 });
    replica.pause();
    expect(await acquire('x')).toMatchObject({ kind: 'granted' });
    expect(await timesCalled(onMaster, 'wait')).toBe(0);
  });

  it('a command that grants or extends a lease is answered once the replica has it [R61]', async () => {
    const { master, onReplica } = await startMasterAndReplica();
    const { store, acquire, token } = await openReplicatedStore(master.url, LONG_LEASE_MS);
    for (let i = 0; i < 20; i++) {
      const own = token();
      expect(await acquire(`at-once:${i}`, own)).toMatchObject({ kind: 'granted' });
      expect(await onReplica.get(`lock:{at-once:${i}}`)).toBe(own);
      const renewal = { key: `at-once:${i}`, token: own, leaseMs: 2 * LONG_LEASE_MS };
      const [renewed] = store.renew([{ ...renewal, used: 0, reserves: 0 }]);
      expect(await renewed).toMatchObject({ kind: 'renewed' });
      expect(await onReplica.pttl(`lock:{at-once:${i}}`)).toBeGreaterThan(LONG_LEASE_MS);
    }
  });

  it('while the replica is paused, no grant is reported, and everything else is answered [R61]', async () => {
    const { master, replica, onMaster } = await startMasterAndReplica();
    const { store, acquire, renew, release, token, lost } = await openReplicatedStore(
      master.url,
      LEASE_MS,
    );
    const held = token();
    await acquire('held', held);
    const other = await openReplicatedStore(master.url, LEASE_MS);
    replica.pause();

    const common = { leaseMs: LEASE_MS };
    const [acquired, together, renewed] = await Promise.all([
      acquire('free'),
      store.acquireTogether([
        { ...common, key: 'a', token: token(), nowait: true },
        { ...common, key: 'b', token: token(), nowait: true },
      ]),
      renew('held', held),
    ]);
    expect(acquired).toMatchObject(unknown);
    expect(together).toMatchObject([unknown, unknown]);
    expect(renewed).toMatchObject([unknown]);

    const waiting = other.token();
    expect(await other.acquire('held', waiting, false)).toMatchObject({ kind: 'queued' });
    expect(await acquire('held')).toMatchObject({ kind: 'busy' });
    expect(await release('held', held)).toEqual({ kind: 'released' });
    const recheck = {
      ...common,
      key: 'held',
      token: waiting,
      newToken: other.token(),
      position: 0,
    };
    expect(await other.store.recheck(recheck)).toMatchObject(unknown);
    const waiter = { key: 'held', tokens: [waiting] as const };
    expect(await other.store.leave({ ...common, ...waiter })).toMatchObject(unknown);
    expect(await Promise.all(other.store.takeBack([waiter]))).toEqual([{ kind: 'left' }]);
    // None of this was an outage: a WAIT ends before the commands behind it are overdue.
    expect([...lost, ...other.lost]).toEqual([]);

    replica.resume();
    await eventually(async () =>
      expect(await acquire(uniqueKey())).toMatchObject({ kind: 'granted' }),
    );
    expect(await timesCalled(onMaster, 'wait')).toBeGreaterThan(3);
  });

  it('"not yours" is an answer, whatever the replicas say about the other leases', async () => {
    const { master, replica, onMaster } = await startMasterAndReplica();
    const { store, acquire, token } = await openReplicatedStore(master.url, LEASE_MS);
    const tokens = [token(), token()];
    await acquire('kept', tokens[0]);
    await acquire('deleted', tokens[1]);
    await onMaster.del('lock:{deleted}');
    replica.pause();
    const renewals = ['kept', 'deleted'].map((key, i) => {
      return { key, token: String(tokens[i]), leaseMs: LEASE_MS, used: 0, reserves: 0 };
    });
    expect(await Promise.all(store.renew(renewals))).toMatchObject([unknown, { kind: 'lost' }]);
  });

  it('a lease that was released and requested again counts as released', async () => {
    const { master, replica } = await startMasterAndReplica();
    const { store, acquire, token } = await openReplicatedStore(master.url, LEASE_MS);
    const own = token();
    await acquire('x', own);
    replica.pause();
    const requeue = { key: 'x', token: own, used: 0, leaseMs: LEASE_MS };
    const newToken = token();
    expect(await store.requeue({ ...requeue, newToken })).toMatchObject({
      ...unknown,
      wasReleased: true,
    });
    const next = { ...requeue, token: token(), newToken: token() };
    // The key was no longer the second token's: the newest one waits behind the one before.
    expect(await store.requeue(next)).toMatchObject({ kind: 'queued', wasLost: true });
  });

  it('64 callers share one WAIT [R64]', async () => {
    const { master, onMaster } = await startMasterAndReplica();
    const { acquire } = await openReplicatedStore(master.url, LONG_LEASE_MS);
    const before = await timesCalled(onMaster, 'wait');
    const replies = await Promise.all(Array.from({ length: 64 }, (_, i) => acquire(`many:${i}`)));
    expect(replies.every(({ kind }) => kind === 'granted')).toBe(true);
    const waits = (await timesCalled(onMaster, 'wait')) - before;
    expect(waits).toBeGreaterThan(0);
    expect(waits).toBeLessThan(16);
  });

  it('a WAIT is not queued behind commands that have not been sent yet', async () => {
    const { master } = await startMasterAndReplica();
    const { acquire } = await openReplicatedStore(master.url, LONG_LEASE_MS);
    const monitor = await RedisMonitor.start(master.port);
    // A thousand may be in flight; the others wait for an answer.
    const burst = Array.from({ length: 2_000 }, (_, i) => acquire(`burst:${i}`));
    await Promise.all(burst); // not all are acknowledged in time on a busy machine
    const names = (await monitor.commands()).map(({ name }) => name);
    expect(names).toContain('wait');
    const before = names.slice(0, names.indexOf('wait')).filter((name) => name === 'evalsha');
    expect(before.length).toBeLessThan(1_500);
  });

  it('an answer that comes after a WAIT is acknowledged by the next one [R63]', async () => {
    const { master, replica, onMaster } = await startMasterAndReplica();
    const { acquire } = await openReplicatedStore(master.url, LONG_LEASE_MS);
    replica.pause();
    const first = acquire('first');
    await waitIsInFlight(onMaster);
    const second = acquire('second');
    expect(await first).toMatchObject(unknown);
    replica.resume();
    expect(await second).toMatchObject({ kind: 'granted' });
  });
});

/** How long this process stands still while something is done, by a timer that is late then. */
class StandingStill {
  #ms = 0;
  #wasAt = performance.now();
  readonly #timer = setInterval(() => {
    const now = performance.now();
    const late = now - this.#wasAt - 10;
    if (late > 10) this.#ms += late;
    this.#wasAt = now;
  }, 10);

  end(): number {
    clearInterval(this.#timer);
    return this.#ms;
  }
}

it('a WAIT that overtakes commands waiting to be sent does not extend their time', async () => {
  const { master, replica, onMaster } = await startMasterAndReplica();
  const { acquire } = await openReplicatedStore(master.url, LEASE_MS);
  replica.pause();
  // At most a thousand are in flight, and a WAIT delays each thousand for 333 ms.
  const burst = Array.from({ length: 6_000 }, (_, i) => acquire(`burst:${i}`));
  await waitIsInFlight(onMaster);
  const standingStill = new StandingStill();
  const dueAt = performance.now() + LEASE_MS / 3;
  const late = acquire('late').then(() => performance.now() - dueAt);
  await sleep(450); // until the next WAIT was requested, and the master has it
  master.pause();
  const overMs = await late;
  const stoodStillMs = standingStill.end();
  master.resume();
  replica.resume();
  await Promise.all(burst);
  // The time in which this process stood still does not count, and what could be sent only after that has STALL_MS.
  expect(overMs).toBeLessThan(150 + (stoodStillMs > 0 ? stoodStillMs + STALL_MS : 0));
});

describeWithRedis72('replicas that must have it on disk', () => {
  const waitReplicas = { replicas: 1, aof: true };

  it('are waited for with WAITAOF', async () => {
    const always = ['--appendonly', 'yes', '--appendfsync', 'always'];
    const { master, onMaster, replica } = await startMasterAndReplica(...always);
    const { acquire } = await openReplicatedStore(master.url, LONG_LEASE_MS, { waitReplicas });
    await eventually(async () =>
      expect(await acquire(uniqueKey())).toMatchObject({ kind: 'granted' }),
    );
    expect(await timesCalled(onMaster, 'waitaof')).toBeGreaterThan(1);
    expect(await timesCalled(onMaster, 'wait')).toBe(0);
    replica.pause();
    expect(await acquire('x')).toMatchObject({
      kind: 'unknown',
      cause: {
        message: expect.stringMatching(/only 0 of 1 replicas have it on disk within 1666 ms$/),
      },
    });
  });

  it('are not enough at the start if they write nothing', async () => {
    const { master } = await startMasterAndReplica();
    const opening = openReplicatedStore(master.url, LEASE_MS, { waitReplicas, startMs: 1_000 });
    await expect(opening).rejects.toThrow(
      /waitReplicas requires 1, but only 0 have the write on disk within 333 ms/,
    );
  });
});

describe('a replica that takes a second to write to its disk', () => {
  it('does not make a connection count as dead: commands sent after a WAITAOF wait for it', async () => {
    const server = await startRedisServer();
    const url = await startWaitAofProxy(server.port, 1_000);
    const waitReplicas = { replicas: 1, aof: true };
    const { acquire, lost, store } = await openReplicatedStore(url, LONG_LEASE_MS, {
      waitReplicas,
    });
    const admin = openAdmin(server.url);
    const name = `lock:commands:${store.processId}`;
    const [id] = await connectionsNamed(name, admin);
    const first = acquire(uniqueKey());
    await sleep(350); // longer than a connection is silent that is in use
    const second = acquire(uniqueKey());
    for (const reply of [first, second]) expect(await reply).toMatchObject({ kind: 'granted' });
    expect(await connectionsNamed(name, admin)).toEqual([id]);
    expect(lost).toEqual([]);
  });
});

describe('a connection that breaks', () => {
  it('between the grant and the acknowledgement: the outcome is unknown, and nothing is sent again [R63]', async () => {
    const { master, replica, onMaster } = await startMasterAndReplica();
    const proxy = await TcpProxy.start(master.port);
    const { acquire, token } = await openReplicatedStore(proxy.url, LONG_LEASE_MS);
    const own = token();
    replica.pause();
    const reply = acquire('x', own);
    await waitIsInFlight(onMaster);
    const since = await onMaster.get('lock:{x}:fence');
    proxy.cut();
    expect(await reply).toMatchObject({
      kind: 'unknown',
      cause: {
        message:
          "Cannot acquire 'x': it is unknown whether the replicas have what Redis did: the connection to Redis broke",
      },
    });
    expect(await reply).not.toHaveProperty('neverRan');
    replica.resume();
    await eventually(async () =>
      expect(await acquire(uniqueKey())).toMatchObject({ kind: 'granted' }),
    );
    expect(await onMaster.get('lock:{x}')).toBe(own);
    expect(await onMaster.get('lock:{x}:fence')).toBe(since);
  });

  it('before the WAIT was sent: one on the next connection proves nothing [R63]', async () => {
    const { master, onMaster } = await startMasterAndReplica();
    const proxy = await TcpProxy.start(master.port);
    const { store, acquire, token } = await openReplicatedStore(proxy.url, LONG_LEASE_MS);
    const own = token();
    await acquire('other', own);
    await onMaster.script('FLUSH');
    await onMaster.script('LOAD', scripts.acquire.lua);
    // The renewal must be sent again whole, and nothing may be sent before that: not even a WAIT.
    const isSilent = proxy.silenceAt('\r\neval\r\n');
    const [renewal] = store.renew([
      { key: 'other', token: own, leaseMs: LONG_LEASE_MS, used: 0, reserves: 0 },
    ]);
    const reply = acquire('x');
    await isSilent;
    expect(await onMaster.exists('lock:{x}')).toBe(1);
    proxy.cut();
    expect(await reply).toMatchObject({
      kind: 'unknown',
      cause: { message: expect.stringMatching(/the connection to Redis broke$/) },
    });
    expect(await renewal).toMatchObject({ kind: 'renewed' }); // it was sent again, with a WAIT of its own
  });
});
