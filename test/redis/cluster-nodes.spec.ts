/** When a cluster is queried, and what is reported of its masters, on a fake clock: the test plays the cluster. */
import { beforeEach, describe, expect, it, jest } from '@jest/globals';
import { EventEmitter } from 'node:events';
import { LockStoreError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import type { ClusterNode } from '../../libs/nestjs-locked/src/redis/cluster/cluster-node.js';
import { ClusterNodes } from '../../libs/nestjs-locked/src/redis/cluster/cluster-nodes.js';
import type { LockServersListener } from '../../libs/nestjs-locked/src/redis/connection/lock-servers.js';
import type { RedisHandshake } from '../../libs/nestjs-locked/src/redis/connection/proof/redis-handshake.js';
import { RedisConnections } from '../../libs/nestjs-locked/src/redis/connection/redis-connections.js';
import type { RedisConnectionsOptions } from '../../libs/nestjs-locked/src/redis/connection/redis-connections.options.js';
import type { RedisCluster } from '../../libs/nestjs-locked/src/redis/connection/server/redis-cluster.js';
import type { ServerInfo } from '../../libs/nestjs-locked/src/redis/connection/server/server-info.js';
import { RedisKeys } from '../../libs/nestjs-locked/src/redis/scripts/redis-keys.js';
import { FakeClock, settled } from '../support/fake-clock.js';

const info: ServerInfo = { evictionPolicy: undefined, runId: undefined, upMs: 0 };
const cause = new LockStoreError('it is silent');

/** The reports of each node, by its address, from when it is opened. */
const listeners = new Map<string, LockServersListener>();
const away = new Set<string>();

beforeEach(() => {
  listeners.clear();
  away.clear();
  const { prototype } = RedisConnections;
  jest.spyOn(prototype, 'open').mockImplementation(async function (this: RedisConnections, own) {
    listeners.set(this.nodeOf(), own);
    return new Map([[this.nodeOf(), info]]);
  });
  jest.spyOn(prototype, 'isReady', 'get').mockImplementation(function (this: RedisConnections) {
    return listeners.has(this.nodeOf()) && !away.has(this.nodeOf());
  });
});

/** Of the masters, each has one slot: the first one has slot 0. */
async function start(masters: readonly string[]) {
  const clock = new FakeClock();
  const state = { masters, hidesFrom: (_asked: readonly string[]): boolean => false };
  const looks: { readonly at: number; readonly asked: readonly string[] }[] = [];
  const clientOf = (address: string) => {
    const [host, port] = address.split(':');
    return { options: { host, port: Number(port) }, duplicate: () => new EventEmitter() };
  };
  const duplicate = (nodes: { host: string; port: number }[]) => {
    const asked = nodes.map(({ host, port }) => `${host}:${port}`);
    looks.push({ at: clock.now(), asked });
    return Object.assign(new EventEmitter(), {
      connect: async () => {
        if (state.hidesFrom(asked)) throw new Error('no node has answered');
      },
      disconnect: () => {},
      nodes: () => state.masters.map(clientOf),
      slots: state.masters.map((address) => [address]),
    });
  };
  const told: string[] = [];
  const tell =
    (event: string) =>
    (...args: readonly unknown[]): void =>
      void told.push(`${event} ${String(args.at(-1))}`);
  const nodes = new ClusterNodes(
    { options: {}, duplicate } as unknown as RedisCluster,
    {
      ...{ clock, keys: new RedisKeys('lock:'), processId: 'me', scripts: [], probe: {} },
      ...{ timeLimitMs: 1_000, leaseMs: 3_000, pingEveryMs: 1_000_000 },
    } as unknown as RedisConnectionsOptions,
    {
      lost: tell('lost'),
      back: tell('back'),
      inboxLost: tell('inboxLost'),
      inboxBack: tell('inboxBack'),
      rightsBack: tell('rightsBack'),
      subscribed: () => {},
      connected: () => {},
    } as unknown as LockServersListener,
  );
  const handshake = { step: (_: string, done: Promise<unknown>) => done, failed: () => {} };
  await nodes.open(handshake as unknown as RedisHandshake, 10_000);
  expect(nodes.all.map(({ address }) => address)).toEqual(masters);
  await clock.advance(1_000); // it is queried once more: there was no master at first
  looks.length = 0;
  return { clock, nodes, state, looks, told, from: nodes.all[0] as ClusterNode };
}

describe('a cluster', () => {
  it('is queried after longer and longer pauses while a master is away, and at once the next time', async () => {
    const { clock, nodes, looks } = await start(['h:1', 'h:2']);
    const gaps = (): number[] => {
      const times = [since, ...looks.splice(0).map(({ at }) => at)];
      return times.slice(1).map((at, i) => at - (times[i] as number));
    };
    let since = clock.now();
    away.add('h:2');
    nodes.lookSoon();
    await clock.advance(3_000);
    expect(gaps()).toEqual([250, 500, 1_000, 1_000]);
    away.clear();
    await clock.advance(2_000);
    expect(gaps()).toHaveLength(1);
    since = clock.now();
    nodes.lookSoon();
    await clock.advance(2_000);
    expect(gaps()).toEqual([250]);
  });

  it('is queried through the masters, and through the first addresses if none of them answers', async () => {
    const { nodes, state, looks } = await start(['h:1', 'h:2']);
    state.hidesFrom = (asked) => asked.length > 0;
    state.masters = ['h:1'];
    await nodes.look();
    expect(looks.map(({ asked }) => asked)).toEqual([['h:1', 'h:2'], []]);
    expect(nodes.all.map(({ address }) => address)).toEqual(['h:1']);
  });

  it('is queried when an inbox is lost', async () => {
    const { clock, looks, told } = await start(['h:1', 'h:2']);
    listeners.get('h:2')?.inboxLost(cause, 'h:2');
    expect(told).toEqual(['inboxLost h:2']);
    await clock.advance(250);
    expect(looks).toHaveLength(1);
  });
});

describe('a master that has left the cluster', () => {
  it('does not count as missing messages or rights', async () => {
    const { nodes, state, told } = await start(['h:1', 'h:2']);
    state.masters = ['h:1'];
    await nodes.look();
    expect(told).toEqual(['inboxBack h:2', 'rightsBack h:2']);
  });

  it('is not away when it comes back', async () => {
    const { clock, nodes, state, told } = await start(['h:1', 'h:2']);
    listeners.get('h:2')?.lost(cause, 'h:2');
    state.masters = ['h:1'];
    await clock.advance(250);
    expect(told).toEqual(['lost h:2', 'back h:2', 'inboxBack h:2', 'rightsBack h:2']);
    told.length = 0;
    state.masters = ['h:1', 'h:2'];
    await nodes.look();
    await settled();
    expect(told).not.toContain('lost h:2');
  });
});

describe('a node without slots', () => {
  it('is not an outage until a slot has moved there', async () => {
    const { nodes, told, from } = await start(['h:1', 'h:2']);
    nodes.at('h:3', from);
    await settled();
    told.length = 0;
    listeners.get('h:3')?.lost(cause, 'h:3');
    expect(told).toEqual([]);
    nodes.moved(0, 'h:3', from);
    expect(told).toEqual(['lost h:3']);
  });

  it('gets the commands of a slot as soon as another node says that it has moved there', async () => {
    const { nodes, from } = await start(['h:1', 'h:2']);
    nodes.moved(0, 'h:3', from);
    expect([0, 1].map((slot) => nodes.ofSlot(slot)?.address)).toEqual(['h:3', 'h:2']);
  });
});
