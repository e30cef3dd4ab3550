/** A deadlock between services on a Redis Cluster, through a key that several of them read. */
import { describe, expect, it } from '@jest/globals';
import { LockDeadlockError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { eventually } from '../support/eventually.js';
import { makeGate } from '../support/gate.js';
import { useRedisCluster } from '../support/own-cluster.js';
import { ringThroughReaders } from '../support/ring-through-readers.js';

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
});
