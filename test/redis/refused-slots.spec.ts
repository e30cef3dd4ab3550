/** Which failures of a cluster count as a refused slot, on a fake clock, with nodes that are played by the test. */
import { describe, expect, it } from '@jest/globals';
import { LockStoreError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { Outage } from '../../libs/nestjs-locked/src/core/store/outage.js';
import type { ClusterNodes } from '../../libs/nestjs-locked/src/redis/cluster/cluster-nodes.js';
import { RefusedSlots } from '../../libs/nestjs-locked/src/redis/cluster/refused-slots.js';
import type {
  CommandFailure,
  CommandOutcome,
} from '../../libs/nestjs-locked/src/redis/connection/traffic/redis-command.js';
import { FakeClock } from '../support/fake-clock.js';

const DOWN = 'CLUSTERDOWN The cluster is down';
const UNSERVED = 'CLUSTERDOWN Hash slot not served';
const MOVING = 'TRYAGAIN Multiple keys request during rehashing of slot';

function failureOf(says: string): CommandFailure {
  const cause = new LockStoreError('Cannot lock', undefined, { cause: new Error(says) });
  return { kind: 'failed', cause, neverRan: true };
}

/** A cluster of two masters. */
function start() {
  const clock = new FakeClock();
  const connections = [{ isReady: true }, { isReady: true }];
  const known = { isKnown: true };
  const nodes = {
    slotOf: () => 7,
    ofSlot: () => (known.isKnown ? {} : undefined),
    all: connections.map((own) => ({ connections: own })),
  } as unknown as ClusterNodes;
  const told: string[] = [];
  const tries: number[] = [];
  let outcome: CommandOutcome = failureOf(DOWN);
  const refused = new RefusedSlots({
    nodes,
    clock,
    redisKeysOf: (key) => [`lock:{${key}}`],
    listener: {
      lost: (_cause, slots) => void told.push(`lost ${slots}`),
      back: (slots) => void told.push(`back ${slots}`),
    },
    send: async () => {
      tries.push(clock.now());
      return outcome;
    },
  });
  const send = async () => {};
  return {
    ...{ clock, refused, connections, known, told, tries },
    answer: (next: CommandOutcome) => void (outcome = next),
    fails: (says: string) =>
      refused.failed({ action: 'lock', keys: ['k'], redisKey: 'lock:{k}', send }, failureOf(says)),
  };
}

describe('a slot that is refused', () => {
  it.each([
    [DOWN, 'all slots'],
    [UNSERVED, 'slot 7'],
    [MOVING, 'slot 7'],
  ])('is an outage while every master answers: %s', (says, slots) => {
    const { fails, told } = start();
    fails(says);
    fails(says);
    expect(told).toEqual([`lost ${slots}`]);
  });

  it('is not an outage of its own while a master is lost and the cluster is down because of it', () => {
    const { fails, told, connections } = start();
    connections[1]!.isReady = false;
    fails(DOWN);
    fails(UNSERVED);
    expect(told).toEqual([]);
    fails(MOVING);
    expect(told).toEqual(['lost slot 7']);
  });

  it('is an outage if no node is known to have the slot, whatever was answered', () => {
    const { fails, told, known } = start();
    fails('ERR something else');
    expect(told).toEqual([]);
    known.isKnown = false;
    fails('ERR something else');
    expect(told).toEqual(['lost slot 7']);
  });

  it('is tried each second until it is no longer refused', async () => {
    const { clock, fails, told, tries, answer } = start();
    fails(MOVING);
    await clock.advance(2_500);
    expect(tries).toHaveLength(3);
    expect(told).toEqual(['lost slot 7']);
    answer({ kind: 'answered', reply: 1, mayHaveRunBefore: false });
    await clock.advance(5_000);
    expect(tries).toHaveLength(4);
    expect(told).toEqual(['lost slot 7', 'back slot 7']);
  });

  it('is tried before it is reported, because it may have lasted for a moment only', async () => {
    const { clock, fails, told, answer } = start();
    const reported: string[] = [];
    const outage = new Outage(clock, 60_000, ({ type }) => reported.push(type));
    fails(MOVING);
    outage.begins(new LockStoreError('the slot moves'));
    answer({ kind: 'answered', reply: 1, mayHaveRunBefore: false });
    await clock.advance(499);
    expect([told, reported]).toEqual([['lost slot 7', 'back slot 7'], []]);
    await clock.advance(1);
    expect(reported).toEqual(['store-lost']); // this is when it would have been reported
  });

  it('is no longer tried after the locks were closed', async () => {
    const { clock, refused, fails, tries } = start();
    fails(MOVING);
    refused.close();
    expect(clock.timers).toBe(0);
    await clock.advance(5_000);
    expect(tries).toEqual([]);
  });
});
