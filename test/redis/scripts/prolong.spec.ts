/** Renewals that need no fencing numbers, in the form that says nothing of most. */
import { describe, expect, it } from '@jest/globals';
import type { Redis } from 'ioredis';
import { prolongScript } from '../../../libs/nestjs-locked/src/redis/scripts/prolong.lua.js';
import { RedisScript } from '../../../libs/nestjs-locked/src/redis/scripts/redis-script.js';
import { afterTest } from '../../support/after-test.js';
import { runScript } from '../../support/run-script.js';
import { LEASE_MS, type ScriptBench } from '../../support/script-bench.js';
import { expectLife } from '../../support/script-replies.js';
import { useScripts } from '../../support/use-scripts.js';

const { newBench, heldBench, contendedBench, connectAs } = useScripts();

interface Lease {
  readonly bench: ScriptBench;
  readonly token: string;
  readonly leaseMs?: number;
}

function prolong(leases: readonly Lease[], redis?: Redis, script = prolongScript) {
  const [{ bench }] = leases as [Lease];
  return runScript(
    redis ?? bench.redis,
    script,
    leases.flatMap((lease) => [lease.bench.lock, lease.bench.queue]),
    leases.flatMap(({ token, leaseMs = LEASE_MS }) => [token, leaseMs]),
  );
}

/** For a server that refuses PEXPIRE with GT, as Redis 6.2 does. */
const withoutGT = new RedisScript('prolong', prolongScript.lua.replace("'GT')", "'LATER')"));

async function errors(redis: Redis): Promise<number> {
  const [, count = 0] = /errorstat_ERR:count=(\d+)/.exec(await redis.info('errorstats')) ?? [];
  return Number(count);
}

describe.each([
  ['on a server with GT', prolongScript],
  ['on a server without GT', withoutGT],
])('prolong %s', (_, script) => {
  it('prolongs each lease for its own time, and only counts them', async () => {
    const all = [await heldBench(), await heldBench(), await heldBench()] as const;
    for (const { bench } of all) await bench.redis.pexpire(bench.lock, 50_000);
    const [first, second, third] = all;
    const leases = [first, { ...second, leaseMs: 2 * LEASE_MS }, third];

    expect(await prolong(leases, undefined, script)).toEqual([3]);

    expectLife(await first.bench.lockLifeMs(), LEASE_MS);
    expectLife(await second.bench.lockLifeMs(), 2 * LEASE_MS);
    expectLife(await third.bench.lockLifeMs(), LEASE_MS);
  });

  it('names those that are not its own, whatever they are, and changes none', async () => {
    const [held, foreign, hash, free] = [await heldBench(), newBench(), newBench(), newBench()];
    const { redis } = free;
    await redis.set(foreign.lock, 'somebody', 'PX', 100_000);
    await redis.hset(hash.lock, 'owner', '1');
    await redis.pexpire(hash.lock, 100_000);
    const token = free.deadToken();
    const others = [free, foreign, hash].map((bench) => ({ bench, token }));

    const stolen = { bench: held.bench, token };
    const reply = await prolong([...others, held, stolen], undefined, script);

    expect(reply).toEqual([1, [1], [2], [3], [5]]);
    expect(await redis.exists(free.lock)).toBe(0);
    expectLife(await foreign.lockLifeMs(), 100_000);
    expectLife(await hash.lockLifeMs(), 100_000);
  });

  it('names those that are wanted, and by how many', async () => {
    const [first, wanted, last] = [await heldBench(), await contendedBench(), await heldBench()];
    const second = (await wanted.bench.peer()).token();
    await wanted.bench.acquire(second);

    expect(await prolong([first, wanted, last], undefined, script)).toEqual([3, [2, 2]]);
  });

  it('prolongs a lease whose queue is broken', async () => {
    const held = await heldBench();
    await held.bench.redis.set(held.bench.queue, 'text', 'PX', 100_000);
    expect(await prolong([held], undefined, script)).toEqual([1]);
    expectLife(await held.bench.lockLifeMs(), LEASE_MS);
  });

  it('never shortens a lease [R10]', async () => {
    const [held, other] = [await heldBench(), await heldBench()];
    const leases = [held, other].map((each) => ({ ...each, leaseMs: 1_000 }));
    expect(await prolong(leases, undefined, script)).toEqual([2]);
    for (const { bench } of leases) expectLife(await bench.lockLifeMs(), LEASE_MS);
  });

  it('gives a lease an end that has lost it', async () => {
    const held = await heldBench();
    await held.bench.redis.persist(held.bench.lock);
    expect(await prolong([held], undefined, script)).toEqual([1]);
    expectLife(await held.bench.lockLifeMs(), LEASE_MS);
  });
});

describe('a lease that lasts longer than asked', () => {
  const longerLease = async () => ({ ...(await heldBench()), leaseMs: 1_000 });

  it('is not confirmed by a master that has lost its replicas', async () => {
    const [held, longer] = [await heldBench(), await longerLease()];
    await longer.bench.redis.config('SET', 'min-replicas-to-write', '1');
    afterTest(() => longer.bench.redis.config('SET', 'min-replicas-to-write', '0'));
    for (const leases of [[longer], [longer, held], [held, longer]])
      await expect(prolong(leases)).rejects.toThrow('NOREPLICAS');
  });

  it('is not confirmed by a server that is no master any more', async () => {
    const longer = await longerLease();
    const { redis } = longer.bench;
    await redis.replicaof('127.0.0.1', '1');
    afterTest(() => redis.replicaof('NO', 'ONE'));
    await expect(prolong([longer])).rejects.toThrow('READONLY');
  });

  it('is written all the same, so that replicas can acknowledge it', async () => {
    const longer = await longerLease();
    const { redis } = longer.bench;
    const before = await written(redis);
    expect(await prolong([longer])).toEqual([1]);
    expect(await written(redis)).toBeGreaterThan(before);
    expectLife(await longer.bench.lockLifeMs(), LEASE_MS);
  });

  /** How many changes the server has made. */
  async function written(redis: Redis): Promise<number> {
    const [, changes = NaN] = /rdb_changes_since_last_save:(\d+)/.exec(await redis.info()) ?? [];
    return Number(changes);
  }
});

describe('prolong', () => {
  it('asks a server only once whether it has GT', async () => {
    const all = [await heldBench(), await heldBench(), await heldBench()];
    const { redis } = newBench();
    const before = await errors(redis);
    await prolong(all, redis, withoutGT);
    expect(await errors(redis)).toBe(before + 1);
  });

  it('is refused, and believes no lease lost, by a server that does not say whose it is', async () => {
    const held = await heldBench();
    const redis = await connectAs('+@all', '-get');
    await expect(prolong([held], redis)).rejects.toThrow(/permission|can't run|NOPERM/);
  });
});
