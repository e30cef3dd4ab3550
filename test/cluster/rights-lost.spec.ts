/** Rights that one master of a cluster revokes from the user of a running process. */
import { describe, expect, it } from '@jest/globals';
import { eventually } from '../support/eventually.js';
import { openAdmin, type OpenedLocks, openLocksOn } from '../support/open-locks.js';
import { startRedisCluster } from '../support/own-cluster.js';
import { race } from '../support/race.js';
import { uniqueKey } from '../support/unique-key.js';

const LEASE_MS = 900;

const told = ({ events }: OpenedLocks): string[] =>
  events.map(({ type }) => type).filter((type) => /^(rights|inbox|store)-/.test(type));

describe.each(['-pubsub', '-publish', '-cluster|myid'])('one master revokes %s', (right) => {
  it('this is reported, with its address, and again when the right is back; the others have their share', async () => {
    const { servers, connection, masterOf } = await startOne();
    const impaired = await openLocksOn(
      { ...connection, redisOptions: { username: 'app', password: 'secret' } },
      { leaseMs: LEASE_MS },
    );
    const healthy = await openLocksOn(connection, { leaseMs: LEASE_MS });
    const key = uniqueKey();
    const { url, port } = await masterOf(key);
    const admin = openAdmin(url);
    await admin.call('ACL', 'SETUSER', 'app', right);

    await eventually(() => expect(told(impaired)).toEqual(['rights-lost']));
    expect(impaired.events.find(({ type }) => type === 'rights-lost')).toMatchObject({
      cause: { message: expect.stringContaining(`:${port}`) },
    });
    await expect(impaired.engine.ping()).rejects.toMatchObject({ code: 'LOCK_STORE_FAILED' });
    const [own, other] = await race([impaired, healthy], {
      holds: 200,
      waitMs: 10_000,
      key,
    });
    expect(other!.errors).toEqual([]);
    expect(other!.holds).toBeGreaterThan(own!.holds / 6);

    await admin.call('ACL', 'SETUSER', 'app', '+@all');
    await eventually(() => expect(told(impaired)).toEqual(['rights-lost', 'rights-back']));
    await expect(impaired.engine.ping()).resolves.toBeGreaterThan(0);
    for (const { holds } of await race([impaired, healthy], { holds: 100, key }))
      expect(holds).toBeGreaterThan(0);
    expect(told(healthy)).toEqual([]);
    expect(servers.nodes.length).toBeGreaterThan(1);
  });
});

async function startOne() {
  const cluster = await startRedisCluster({ replicasPerMaster: 0 });
  for (const { url } of cluster.servers.nodes)
    await openAdmin(url).call('ACL', 'SETUSER', 'app', 'on', '>secret', '~*', '&*', '+@all');
  const { servers, connection } = cluster;
  return { servers, connection, masterOf: (key: string) => cluster.masterOf(key) };
}
