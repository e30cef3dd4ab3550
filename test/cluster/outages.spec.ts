/** Which outages of a cluster are reported, and that they end. */
import { describe, expect } from '@jest/globals';
import type { RedisServer } from 'dev-servers';
import { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import type { LockEvent } from '../../libs/nestjs-locked/src/core/lock-events.js';
import { resolveServiceOptions } from '../../libs/nestjs-locked/src/core/resolved.options.js';
import { systemClock } from '../../libs/nestjs-locked/src/core/time/clock.js';
import { openRedis } from '../../libs/nestjs-locked/src/redis/connection/open-redis.js';
import { RedisLockStore } from '../../libs/nestjs-locked/src/redis/redis-lock-store.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { fault } from '../support/fault-report.js';
import { openAdmin } from '../support/open-locks.js';
import { startRedisCluster } from '../support/own-cluster.js';

const LEASE_MS = 3_000;
/** Bound on what takes a second or two when the machine is idle. */
const PATIENT_MS = 20_000;

describe('a start that fails', () => {
  fault(
    'because of one master, while another one is lost',
    'when both are there again, no outage of that start is left',
    async () => {
      const cluster = await startRedisCluster({ replicasPerMaster: 0, nodeTimeoutMs: 60_000 });
      const [lost, silent] = cluster.servers.nodes as [RedisServer, RedisServer];
      const redis = openRedis(cluster.connection);
      const store = new RedisLockStore({
        client: redis.client,
        clock: systemClock,
        keyPrefix: 'lock:',
        leaseMs: LEASE_MS,
        startMs: 4_000,
        closeClient: () => redis.close(),
      });
      const events: LockEvent[] = [];
      const report = (event: LockEvent): void => void events.push(event);
      const options = resolveServiceOptions({ leaseMs: LEASE_MS });
      const engine = new LockEngine({ store, options, report, clock: systemClock });
      afterTest(() => engine.close(0));

      silent.pause();
      const opening = engine.open().catch((error: unknown) => error);
      await eventually(async () =>
        expect(await openAdmin(lost.url).pubsub('CHANNELS', 'lock:inbox:*')).toHaveLength(1),
      );
      await openAdmin(lost.url).ping(); // the proof has been made
      await lost.kill();
      engine.openLater((await opening) as never);
      silent.resume();
      await lost.restart();

      await eventually(() => expect(events.at(-1)?.type).toBe('store-back'), PATIENT_MS);
      expect(await engine.ping()).toBeGreaterThan(0);
      expect(events.map(({ type }) => type)).toEqual(['store-lost', 'store-back']);
    },
    60_000,
  );
});
