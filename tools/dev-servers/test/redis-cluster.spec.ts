import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { isAlive, RedisCluster, type RedisServer } from 'dev-servers';
import { Cluster, Redis } from 'ioredis';
import { afterTest } from '../../../test/support/after-test.js';
import { eventually } from '../../../test/support/eventually.js';

const START_LIMIT_MS = 15_000;

describe('RedisCluster', () => {
  let cluster: RedisCluster;
  let startedAfterMs: number;

  beforeAll(async () => {
    const before = performance.now();
    cluster = await RedisCluster.start();
    startedAfterMs = performance.now() - before;
  });

  afterAll(() => cluster.stop());

  it('starts three masters with a replica each, on which keys of all slots can be written', async () => {
    expect(startedAfterMs).toBeLessThan(START_LIMIT_MS);
    const masters = await cluster.masters();
    expect(masters).toEqual(cluster.nodes.slice(0, 3));
    const followers = await Promise.all(masters.map((master) => cluster.replicasOf(master)));
    expect(followers).toEqual(cluster.nodes.slice(3).map((replica) => [replica]));
    expect(new Set(cluster.nodes.map((node) => cluster.nodeIdOf(node))).size).toBe(6);

    const client = clientOf(cluster);
    const keys = Array.from({ length: 100 }, (_, index) => `key:${index}`);
    await Promise.all(keys.map((key) => client.set(key, key)));

    expect(await Promise.all(keys.map((key) => client.get(key)))).toEqual(keys);
    const sizes = await Promise.all(masters.map((master) => direct(master).dbsize()));
    expect(sizes.every((size) => size > 0)).toBe(true);
  });

  it('moves a slot with its keys to another master', async () => {
    const client = clientOf(cluster);
    const keys = ['{moves}:1', '{moves}:2 words', '{moves}:3\r\nlines', '{moves}:ü'];
    await Promise.all(keys.map((key) => client.set(key, key, 'PX', 60_000)));
    const slot = await cluster.slotOf('{moves}');
    const from = await cluster.masterOf(slot);
    const to = await otherMaster(cluster, from);

    await cluster.moveSlot(slot, to);

    expect(await cluster.masterOf(slot)).toBe(to);
    await expect(direct(from).get(keys[0]!)).rejects.toThrow(`MOVED ${slot} 127.0.0.1:${to.port}`);
    expect(await Promise.all(keys.map((key) => direct(to).get(key)))).toEqual(keys);
    expect(await direct(to).pttl(keys[0]!)).toBeGreaterThan(0);
    expect(await Promise.all(keys.map((key) => client.get(key)))).toEqual(keys);
  });

  it('stops between the steps of a move', async () => {
    const slot = await cluster.slotOf('{steps}');
    const from = await cluster.masterOf(slot);
    const to = await otherMaster(cluster, from);
    await direct(from).set('{steps}:1', 'here');

    await cluster.beginMove(slot, to);
    expect(await direct(from).get('{steps}:1')).toBe('here');
    await expect(direct(from).get('{steps}:2')).rejects.toThrow(`ASK ${slot}`);
    await expect(direct(from).mget('{steps}:1', '{steps}:2')).rejects.toThrow('TRYAGAIN');

    await cluster.moveKeys(slot);
    expect(await cluster.masterOf(slot)).toBe(from);
    await expect(direct(from).get('{steps}:1')).rejects.toThrow(`ASK ${slot}`);

    await cluster.endMove(slot);
    expect(await cluster.masterOf(slot)).toBe(to);
    expect(await direct(to).get('{steps}:1')).toBe('here');
    await expect(cluster.endMove(slot)).rejects.toThrow('call beginMove first');
  });

  it('replaces a master by its replica when told to', async () => {
    const [master] = (await cluster.masters()) as [RedisServer];
    const [replica] = (await cluster.replicasOf(master)) as [RedisServer];

    await cluster.failover(replica);

    expect(await cluster.masters()).toContain(replica);
    expect(await cluster.masters()).not.toContain(master);
    await eventually(async () => expect(await cluster.replicasOf(replica)).toEqual([master]));
  });

  it('replaces a killed master by its replica, which it follows when it is back', async () => {
    const slot = await cluster.slotOf('survivor');
    const master = await cluster.masterOf(slot);
    const [replica] = (await cluster.replicasOf(master)) as [RedisServer];
    const id = cluster.nodeIdOf(master);
    await direct(master).set('survivor', 'value');
    await eventually(async () => expect(await direct(replica).dbsize()).toBeGreaterThan(0));

    await master.kill();
    await eventually(async () => expect(await cluster.masterOf(slot)).toBe(replica), 30_000);
    expect(await direct(replica).get('survivor')).toBe('value');

    await master.restart();
    await eventually(async () => expect(await cluster.replicasOf(replica)).toEqual([master]));
    expect(await direct(master).cluster('MYID')).toBe(id);
  });

  it('names the later master of a slot while an earlier one still believes to be it', async () => {
    const slot = await cluster.slotOf('two masters');
    const master = await cluster.masterOf(slot);
    const [replica] = (await cluster.replicasOf(master)) as [RedisServer];

    master.pause();
    await eventually(async () => expect(await cluster.masterOf(slot)).toBe(replica), 30_000);
    master.resume();

    expect(await cluster.masterOf(slot)).toBe(replica);
    expect(await cluster.masters()).not.toContain(master);
  });
});

describe('the life of a RedisCluster', () => {
  it('has as many replicas as asked for, and leaves no process behind', async () => {
    const cluster = await RedisCluster.start({ replicasPerMaster: 0, requireFullCoverage: false });
    afterTest(() => cluster.stop());
    expect(cluster.nodes).toHaveLength(3);
    const [first] = cluster.nodes as [RedisServer];
    expect(await direct(first).config('GET', 'cluster-require-full-coverage')).toContain('no');

    await cluster.stop();
    await cluster.stop();

    expect(cluster.nodes.map(({ pid }) => isAlive(pid))).toEqual([false, false, false]);
  });

  it('says what redis-server printed when a node does not start', async () => {
    await expect(RedisCluster.start({ args: ['--no-such-option', '1'] })).rejects.toThrow(
      /no-such-option/,
    );
  });
});

async function otherMaster(cluster: RedisCluster, than: RedisServer): Promise<RedisServer> {
  return (await cluster.masters()).find((master) => master !== than) as RedisServer;
}

function clientOf(cluster: RedisCluster): Cluster {
  const client = new Cluster(cluster.startupNodes);
  afterTest(() => client.disconnect());
  return client;
}

/** To one node alone: it answers MOVED and ASK as they are. */
function direct({ url }: RedisServer): Redis {
  const redis = new Redis(url, { readOnly: true });
  redis.on('error', () => {});
  afterTest(() => redis.disconnect());
  return redis;
}
