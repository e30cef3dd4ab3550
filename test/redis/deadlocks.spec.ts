/** Deadlocks between services on a real server: each service is a process to Redis and to the others. */
import { describe, expect, it } from '@jest/globals';
import type { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import { LockDeadlockError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { eventually } from '../support/eventually.js';
import { makeGate } from '../support/gate.js';
import { openLocks } from '../support/open-locks.js';
import { ringThroughReaders } from '../support/ring-through-readers.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const redis = useRedis();
/** Waits look for a deadlock after a third of the lease. */
const LEASE_MS = 1_500;
const OPTIONS = { leaseMs: LEASE_MS, waitMs: 30_000 };

/** Each call holds one key and requests the next one. */
async function outcomesOfRing(engines: readonly LockEngine[], keys: readonly string[]) {
  const all = makeGate();
  let holding = 0;
  const calls = keys.map((key, i) => {
    const engine = engines[i % engines.length] as LockEngine;
    const next = keys[(i + 1) % keys.length] as string;
    return engine.withLock(key, { label: `outer ${i}` }, async () => {
      holding++;
      if (holding === keys.length) all.open();
      await all.opened;
      return engine.withLock(next, { label: `inner ${i}` }, () => i);
    });
  });
  return Promise.allSettled(calls);
}

describe('calls of several services that wait for each other', () => {
  it.each([2, 3])('are freed by one error within two intervals: %s services', async (count) => {
    const opened = await Promise.all(
      Array.from({ length: count }, () => openLocks(redis.url, OPTIONS)),
    );
    const keys = opened.map(() => uniqueKey());
    const began = performance.now();
    const ended = await outcomesOfRing(
      opened.map(({ engine }) => engine),
      keys,
    );
    expect(performance.now() - began).toBeLessThan(10_000); // a third of the wait
    const errors = ended.flatMap((it) => (it.status === 'rejected' ? [it.reason as unknown] : []));
    expect(errors).toEqual([expect.any(LockDeadlockError)]);
    const { ring, message } = errors[0] as LockDeadlockError;
    expect(new Set(ring.map(({ processId }) => processId))).toEqual(
      new Set(opened.map(({ store }) => store.processId)),
    );
    for (const [i, key] of keys.entries()) {
      expect(message).toContain(`'${key}'`);
      expect(message).toContain(`'inner ${i}'`);
    }
    const told = opened.flatMap(({ events }) => events.filter(({ type }) => type === 'deadlock'));
    expect(told).toHaveLength(1);
  });

  it.each([1, 3])('are freed if one of the readers closes the ring: %s services', async (count) => {
    const opened = await Promise.all(
      Array.from({ length: count }, () => openLocks(redis.url, OPTIONS)),
    );
    const done = makeGate();
    const ended = ringThroughReaders(
      opened.map(({ engine }) => engine),
      done.opened,
    );
    const told = () =>
      opened.flatMap(({ events }) => events.filter(({ type }) => type === 'deadlock'));
    await eventually(() => expect(told()).toHaveLength(1));
    done.open();
    const results = await ended;
    const errors = results.flatMap((it) =>
      it.status === 'rejected' ? [it.reason as unknown] : [],
    );
    expect(errors).toEqual([expect.any(LockDeadlockError)]);
    const { ring } = errors[0] as LockDeadlockError;
    expect(ring.map(({ label }) => label).sort()).toEqual(['wants both', 'wants to write']);
  });

  it('are shown by waits() of any service', async () => {
    const [one, other, third] = await Promise.all(
      [1, 2, 3].map(() => openLocks(redis.url, OPTIONS)),
    );
    const [a, b] = [uniqueKey(), uniqueKey()];
    const [gate, held] = [makeGate(), makeGate()];
    const working = one?.engine.withLock(b, {}, async () => {
      held.open();
      await gate.opened;
    });
    await held.opened;
    const waiting = other?.engine.withLock(a, {}, () =>
      other.engine.withLock(b, { label: 'waits' }, () => 1),
    );
    const behind = one?.engine.withLock(a, {}, () => 2);
    for (;;) {
      const waits = (await third?.engine.waits('*')) ?? [];
      const mine = waits.find(({ key }) => key === b);
      if (mine === undefined) continue;
      expect(mine).toMatchObject({
        processId: other?.store.processId,
        pid: process.pid,
        label: 'waits',
        holds: [a],
      });
      break;
    }
    gate.open();
    await Promise.all([working, waiting, behind]);
  });
});
