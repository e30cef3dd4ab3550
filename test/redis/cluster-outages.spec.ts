import { describe, expect, it } from '@jest/globals';
import { LockStoreError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { ClusterOutages } from '../../libs/nestjs-locked/src/redis/cluster/cluster-outages.js';

const cause = new LockStoreError('silent');

function outages(...withSlots: string[]) {
  const slots = new Set(withSlots);
  const told: string[] = [];
  const listener = {
    lost: (_cause: LockStoreError, address: string) => void told.push(`lost ${address}`),
    back: (address: string) => void told.push(`back ${address}`),
  };
  return { slots, told, it: new ClusterOutages(listener, (address) => slots.has(address)) };
}

describe('ClusterOutages', () => {
  it('reports a node with slots once when it is lost, and once when it is back', () => {
    const { it: of, told } = outages('a');
    of.begins('a', cause);
    of.begins('a', cause);
    of.ends('a');
    of.ends('a');
    expect(told).toEqual(['lost a', 'back a']);
  });

  it('ends the outage of a node that has lost its slots, and begins one when it gets some', () => {
    const { it: of, told, slots } = outages('a');
    of.begins('a', cause);
    slots.delete('a');
    of.review();
    expect(told).toEqual(['lost a', 'back a']);
    slots.add('a');
    of.review();
    expect(told).toEqual(['lost a', 'back a', 'lost a']);
  });

  it('reports it again if the reason changes', () => {
    const { it: of, told } = outages('a');
    of.begins('a', cause);
    of.begins('a', new LockStoreError('refused'));
    expect(told).toEqual(['lost a', 'lost a']);
  });

  it('reports nothing for a node without slots', () => {
    const { it: of, told } = outages();
    of.begins('b', cause);
    of.ends('b');
    expect(told).toEqual([]);
  });
});
