/** Deadlocks between services on a Redis Cluster. */
import { describe, expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { LockDeadlockError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { eventually } from '../support/eventually.js';
import { makeGate } from '../support/gate.js';
import { useRedisCluster } from '../support/own-cluster.js';
import { expectOneVictim, startRing } from '../support/ring-of-calls.js';
import { ringThroughReaders } from '../support/ring-through-readers.js';
import { uniqueKey } from '../support/unique-key.js';

const OPTIONS = { leaseMs: 1_500, waitMs: 30_000 };

describe('calls of several services that wait for each other', () => {
  const cluster = useRedisCluster();

  it('are freed if one of the readers closes the ring', async () => {
    const opened = await Promise.all([1, 2, 3].map(() => cluster.openLocks(OPTIONS)));
    const done = makeGate();
    const engines = opened.map(({ engine }) => engine);
    const ended = ringThroughReaders(engines, done.opened);
    const told = () =>
      opened.flatMap(({ events }) => events.filter(({ type }) => type === 'deadlock'));
    await eventually(() => expect(told()).toHaveLength(1));
    done.open();
    const errors = (await ended).flatMap((it) =>
      it.status === 'rejected' ? [it.reason as unknown] : [],
    );
    expect(errors).toEqual([expect.any(LockDeadlockError)]);
  });

  it.each([2, 3])('are freed by one error although a slot moves meanwhile: %s', async (count) => {
    const opened = await Promise.all(
      Array.from({ length: count }, () => cluster.openLocks({ leaseMs: 4_500, waitMs: 60_000 })),
    );
    const engines = opened.map(({ engine }) => engine);
    const told = () =>
      opened.flatMap(({ events }) => events.filter(({ type }) => type === 'deadlock'));
    // The last call is the only one against the order of the keys, which waits ten seconds at most.
    const keysOf = (what: string) => Array.from({ length: count }, () => uniqueKey(what)).sort();
    const [moved, half] = [keysOf('moved'), keysOf('half')];
    const closing = makeGate();
    const rings = [moved, half].map((keys) => ({
      keys,
      ring: startRing(engines, keys, closing.opened),
    }));
    await Promise.all(rings.map(({ ring }) => ring.allHold));
    const move = async (key: string) => {
      const [slot, to] = [await cluster.slotOf(key), await cluster.otherMaster(key)];
      return { slot, to };
    };
    const [whole, partly] = [await move(moved[0] as string), await move(half[0] as string)];
    await cluster.servers.beginMove(partly.slot, partly.to);
    closing.open();
    await cluster.servers.moveSlot(whole.slot, whole.to);
    await sleep(1_000); // half-way when the first search begins
    await cluster.servers.moveKeys(partly.slot);
    await sleep(1_000);
    await cluster.servers.endMove(partly.slot);
    for (const { keys, ring } of rings) await expectOneVictim(ring, keys);
    await eventually(() => expect(told()).toHaveLength(rings.length));
    for (const { events } of opened)
      expect(events.filter(({ type }) => type === 'lost')).toEqual([]);
  });
});
