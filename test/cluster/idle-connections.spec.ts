/** Connections to the nodes of a cluster that are dead, or have changed, without a sign. */
import { describe, expect, it } from '@jest/globals';
import { eventually } from '../support/eventually.js';
import { ForgettingProxy } from '../support/forgetting-proxy.js';
import { LockObserver } from '../support/lock-observer.js';
import { openAdmin, openLocksOn } from '../support/open-locks.js';
import { startRedisCluster } from '../support/own-cluster.js';
import { startRedisServer } from '../support/own-redis.js';
import { SlowClock } from '../support/slow-clock.js';
import { uniqueKey } from '../support/unique-key.js';

/** A single try has a second, in which a connection is replaced. A busy machine may need more. */
const SLOWER = 2;
/** Every connection is checked every second. */
const LEASE_MS = 3_000;

describe('a rarely used master', () => {
  it('is reached over a new connection if the old one was dropped: a single try of a free key succeeds', async () => {
    const { servers } = await startRedisCluster({ replicasPerMaster: 0 });
    const proxies = new Map<string, ForgettingProxy>();
    for (const { port } of servers.nodes)
      proxies.set(`127.0.0.1:${port}`, await ForgettingProxy.start(port, 300 * SLOWER));
    const natMap = Object.fromEntries(
      [...proxies].map(([address, { port }]) => [address, { host: '127.0.0.1', port }]),
    );
    const { engine, events } = await openLocksOn(
      { cluster: servers.startupNodes, natMap },
      { leaseMs: LEASE_MS, clock: new SlowClock(SLOWER) },
    );
    for (let i = 0; i < 6; i++) {
      const before = [...proxies.values()].map(({ forgotten }) => forgotten);
      await eventually(() =>
        [...proxies.values()].forEach(({ forgotten }, node) =>
          expect(forgotten).toBeGreaterThan(before[node] as number),
        ),
      );
      const lock = await engine.tryAcquire(uniqueKey());
      expect(lock).not.toBeNull();
      await lock?.release();
    }
    expect(events.filter(({ type }) => type === 'store-lost')).toEqual([]);
    expect(events.some(({ type }) => type === 'connection-replaced')).toBe(true);
  });
});

describe('a node that was reset, and has a new id', () => {
  it('counts its waiters again within the check interval', async () => {
    const node = await startRedisServer(
      ...['--cluster-enabled', 'yes', '--cluster-announce-ip', '127.0.0.1'],
    );
    const admin = openAdmin(node.url);
    const takeAllSlots = async (): Promise<void> => {
      await admin.call('CLUSTER', 'ADDSLOTSRANGE', '0', '16383');
      await eventually(async () =>
        expect(String(await admin.call('CLUSTER', 'INFO'))).toContain('cluster_state:ok'),
      );
    };
    await takeAllSlots();
    const connection = { cluster: [{ host: '127.0.0.1', port: node.port }] };
    // Connections are checked every five seconds, and the listeners that a script counts every 30.
    const options = { leaseMs: 15_000, waitMs: 30_000 };
    const [one, two] = [
      await openLocksOn(connection, options),
      await openLocksOn(connection, options),
    ];
    const idBefore = await admin.call('CLUSTER', 'MYID');

    await admin.flushall();
    await admin.call('CLUSTER', 'RESET', 'HARD');
    await takeAllSlots();
    const id = String(await admin.call('CLUSTER', 'MYID'));
    expect(id).not.toBe(idBefore);
    await eventually(async () => {
      const listening = (await admin.call('PUBSUB', 'CHANNELS', `*@${id}`)) as string[];
      expect(listening).toHaveLength(2);
    }, 15_000);

    const observer = new LockObserver({ admin });
    for (let i = 0; i < 3; i++) {
      const key = uniqueKey();
      const held = await one.engine.acquire(key, { leaseMs: 60_000 });
      const waiting = two.engine.acquire(key);
      await observer.waiting(key, 1);
      const releasedAt = performance.now();
      await held.release();
      await (await waiting).release();
      expect(performance.now() - releasedAt).toBeLessThan(2_500); // it did not poll
    }
  });
});
