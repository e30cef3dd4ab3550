/** A worker thread that renews leases follows the sentinels by itself, while the event loop is blocked. */
import { describe, expect } from '@jest/globals';
import { RedisReplicaSet } from 'dev-servers';
import { spawn } from 'node:child_process';
import { afterTest } from '../support/after-test.js';
import { fault } from '../support/fault-report.js';
import { openAdmin, openLocksOn } from '../support/open-locks.js';
import { standStill } from '../support/stand-still.js';
import { uniqueKey } from '../support/unique-key.js';

const LEASE_MS = 10_000;
const BLOCKED_MS = 30_000;

describe('three sentinels', () => {
  fault(
    'planned failover while the event loop of the holder is blocked for three leases',
    'lock kept on the new master',
    async (measure) => {
      const set = await RedisReplicaSet.start();
      afterTest(() => set.stop());
      const { sentinels } = set;
      const { engine } = await openLocksOn(
        { sentinels, name: set.name },
        { leaseMs: LEASE_MS, maxHoldMs: Infinity, renewFrom: 'worker' },
      );
      const key = uniqueKey();
      const lock = await engine.acquire(key);
      const old = await set.master();
      const token = await openAdmin(old.url).get(`lock:{${key}}`);
      expect(await openAdmin(old.url).wait(1, 10_000)).toBe(1);

      const failOver = `redis-cli -p ${sentinels[0]?.port} sentinel failover ${set.name}`;
      spawn('sh', ['-c', `sleep 2; ${failOver}`], { stdio: 'ignore' });
      standStill(BLOCKED_MS);

      expect(lock.isHeld).toBe(true);
      measure('left of the lease', lock.remainingMs(), 'ms');
      const next = await set.successorOf(old);
      expect(await openAdmin(next.url).get(`lock:{${key}}`)).toBe(token);
      expect(await lock.release()).toBe(true);
    },
  );
});
