/** Locks with `waitReplicas`: what the replica has when a call has a lock, and what ends while replicas are awaited. */
import { describe, expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { LockAbortedError, LockStoreError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { eventually } from '../support/eventually.js';
import { startMasterAndReplica, waitIsInFlight } from '../support/master-and-replica.js';
import { openReplicatedLocks } from '../support/open-replicated-locks.js';
import { uniqueKey } from '../support/unique-key.js';

/** A command may take 5 s, and WAIT half a second. */
const LEASE_MS = 60_000;

async function open(options = {}) {
  const servers = await startMasterAndReplica();
  const locks = await openReplicatedLocks(servers.master.url, { leaseMs: LEASE_MS, ...options });
  return { ...servers, ...locks };
}

const failureOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => 'no failure',
    (error: unknown) => error,
  );

describe('when a call has a lock, the replica has it', () => {
  it('granted at once, handed over by message, and requested again, in two processes [R61]', async () => {
    const { master, onMaster, onReplica, engine, store } = await open({ localHandovers: 1 });
    const other = await openReplicatedLocks(master.url, { leaseMs: LEASE_MS, localHandovers: 1 });
    const key = uniqueKey();
    const seen: { token: string | null; there: string | null; ms: number; process: string }[] = [];
    const work = async (locks: Pick<typeof other, 'engine' | 'store'>): Promise<void> => {
      for (let i = 0; i < 10; i++) {
        await locks.engine.withLock(key, {}, async () => {
          const [token, there, ms] = await Promise.all([
            onMaster.get(`lock:{${key}}`),
            onReplica.get(`lock:{${key}}`),
            onReplica.pttl(`lock:{${key}}`),
          ]);
          seen.push({ token, there, ms, process: locks.store.processId });
          await sleep(1);
        });
      }
    };
    const ours = { engine, store };
    await Promise.all([work(ours), work(ours), work(other), work(other)]);
    expect(seen).toHaveLength(40);
    for (const { token, there, ms, process } of seen) {
      expect(there).toBe(token);
      expect(there).toContain(process);
      expect(ms).toBeGreaterThan(LEASE_MS / 2); // not only the time granted by the previous process
    }
    expect(new Set(seen.map(({ token }) => token)).size).toBeGreaterThan(4);
  });

  it('with a short first lease: the replica has it, and the whole one counts only when the replica has that', async () => {
    const { engine, onReplica, replica, events } = await open({ firstLeaseMs: 6_000 });
    const key = uniqueKey();
    const lock = await engine.acquire(key);
    expect(await onReplica.pttl(`lock:{${key}}`)).toBeGreaterThan(0);
    expect(await onReplica.pttl(`lock:{${key}}`)).toBeLessThanOrEqual(6_000);
    replica.pause();
    await sleep(4_000); // the renewal after two seconds is not acknowledged
    expect(lock.remainingMs()).toBeLessThan(2_100);
    replica.resume();
    await eventually(() => expect(lock.remainingMs()).toBeGreaterThan(LEASE_MS / 2));
    expect(await onReplica.pttl(`lock:{${key}}`)).toBeGreaterThan(LEASE_MS / 2);

    const ends = await engine.acquire(uniqueKey());
    replica.pause();
    await eventually(() => expect(ends.signal.aborted).toBe(true), 12_000);
    replica.resume();
    expect(events.filter(({ type }) => type === 'lost')).toHaveLength(1);
    expect(await lock.release()).toBe(true);
  });

  it('several keys', async () => {
    const { engine, onReplica } = await open();
    const keys = [uniqueKey('a'), uniqueKey('b'), uniqueKey('c')];
    const lock = await engine.acquire(keys);
    for (const key of keys) expect(await onReplica.exists(`lock:{${key}}`)).toBe(1);
    expect(await lock.release()).toBe(true);
  });

  it('a fixed lease', async () => {
    const { engine, onReplica } = await open();
    const key = uniqueKey();
    const lock = await engine.acquire(key, { renew: false, leaseMs: 5_000 });
    expect(await onReplica.pttl(`lock:{${key}}`)).toBeGreaterThan(lock.remainingMs());
    expect(await lock.release()).toBe(true);
  });
});

describe('while the replica stands still', () => {
  it('no call gets several keys, and none of them stays taken', async () => {
    const { engine, replica, onMaster } = await open();
    const keys = [uniqueKey('a'), uniqueKey('b')];
    replica.pause();
    const error = await failureOf(engine.acquire(keys, { waitMs: 1_000 }));
    expect(error).toBeInstanceOf(LockStoreError);
    expect(String(error)).toContain('only 0 of 1 replicas have acknowledged it');
    await eventually(async () =>
      expect(await onMaster.exists(...keys.map((key) => `lock:{${key}}`))).toBe(0),
    );
  });

  it('no call gets a fixed lease', async () => {
    const { engine, replica } = await open();
    replica.pause();
    const asked = engine.acquire(uniqueKey(), { renew: false, leaseMs: 5_000, waitMs: 1_000 });
    expect(await failureOf(asked)).toBeInstanceOf(LockStoreError);
  });

  it('ensureRemaining() moves no deadline, and its error says why [R62]', async () => {
    const { engine, replica } = await open({ leaseMs: 6_000 });
    const lock = await engine.acquire(uniqueKey());
    replica.pause();
    const error = await failureOf(lock.ensureRemaining(20_000));
    expect(error).toBeInstanceOf(LockStoreError);
    expect(String(error)).toContain('only 0 of 1 replicas have acknowledged it');
    expect(lock.remainingMs()).toBeLessThan(6_000);
    replica.resume();
    await eventually(() => lock.ensureRemaining(20_000));
    expect(lock.remainingMs()).toBeGreaterThan(19_000);
    expect(await lock.release()).toBe(true);
  });

  it('no fencing number of a block that the replica lacks is used [R62]', async () => {
    const { engine, replica, onReplica } = await open();
    const key = uniqueKey();
    const first = await engine.acquire(key);
    const stored = Number(await onReplica.get('lock:fence'));
    expect(stored).toBe(first.fencingToken);
    replica.pause();
    // There is one number, and it is used: the next call needs another one, which a renewal reserves.
    const next = engine.acquire(key, { waitMs: 20_000 });
    let hasEntered = false;
    const entered = next.then(() => (hasEntered = true));
    expect(await first.release()).toBe(true);
    await sleep(1_200); // more than two WAITs
    expect(hasEntered).toBe(false);
    replica.resume();
    await entered;
    const second = await next;
    const [bound] = String(await onReplica.get('lock:fence')).split(' ');
    expect(second.fencingToken).toBeGreaterThan(first.fencingToken);
    expect(Number(bound)).toBeGreaterThanOrEqual(second.fencingToken);
    expect(await second.release()).toBe(true);
  });

  it('a call that is aborted ends at once, and its key does not stay taken', async () => {
    const { engine, replica, onMaster } = await open();
    const key = uniqueKey();
    replica.pause();
    const controller = new AbortController();
    const asked = failureOf(engine.acquire(key, { signal: controller.signal }));
    await waitIsInFlight(onMaster);
    expect(await onMaster.exists(`lock:{${key}}`)).toBe(1);
    controller.abort();
    expect(await asked).toBeInstanceOf(LockAbortedError);
    await eventually(async () => expect(await onMaster.exists(`lock:{${key}}`)).toBe(0));
  });

  it('the locks can be closed, and nothing stays taken', async () => {
    const { engine, replica, onMaster } = await open();
    const key = uniqueKey();
    replica.pause();
    const asked = failureOf(engine.acquire(key));
    await waitIsInFlight(onMaster);
    const from = performance.now();
    await engine.close(5_000);
    expect(performance.now() - from).toBeLessThan(4_000);
    expect(await asked).toBeInstanceOf(LockAbortedError);
    expect(await onMaster.exists(`lock:{${key}}`)).toBe(0);
    expect(engine.residue).toEqual({ queues: 0, tokens: 0, timers: 0 });
  });

  it('closed between two attempts to confirm a grant: the key does not stay taken', async () => {
    const { engine, master, replica, onMaster } = await open();
    const closing = await openReplicatedLocks(master.url, { leaseMs: LEASE_MS });
    const key = uniqueKey();
    const lock = await engine.acquire(key);
    const next = failureOf(closing.engine.acquire(key));
    await eventually(async () => expect(await onMaster.zcard(`lock:{${key}}:queue`)).toBe(1));
    replica.pause();
    expect(await lock.release()).toBe(true);
    await eventually(() =>
      expect(closing.events.map(({ type }) => type)).toContain('renewal-unknown'),
    );
    // Nothing is in flight now; the next renewal would be sent a tenth of a second later.
    await closing.engine.close(5_000);
    expect(await next).toBeInstanceOf(LockAbortedError);
    expect(await onMaster.exists(`lock:{${key}}`)).toBe(0);
  });
});
