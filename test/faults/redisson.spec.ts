/** Locks in the layout of Redisson behind three real sentinels. */
import { describe, expect } from '@jest/globals';
import { RedisReplicaSet } from 'dev-servers';
import { randomUUID } from 'node:crypto';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { fault } from '../support/fault-report.js';
import { openAdmin, openLocksOn } from '../support/open-locks.js';
import { uniqueKey } from '../support/unique-key.js';

describe("layout: 'redisson'", () => {
  fault(
    'planned failover while locks of Redisson are held and waited for',
    'holders keep them, and whoever waits is woken by a release on the new master',
    async (measure) => {
      const set = await RedisReplicaSet.start();
      afterTest(() => set.stop());
      const options = { leaseMs: 60_000, waitMs: 100_000, layout: 'redisson' } as const;
      const { engine } = await openLocksOn({ sentinels: set.sentinels, name: set.name }, options);
      const [held, waited] = [uniqueKey(), uniqueKey()];
      const before = openAdmin((await set.master()).url);
      await before.multi().hset(waited, `${randomUUID()}:1`, 1).pexpire(waited, 600_000).exec();
      const lock = await engine.acquire(held);
      const waiting = engine.acquire(waited);
      await eventually(async () => {
        const channel = `redisson_lock__channel:{${waited}}`;
        expect((await before.pubsub('NUMSUB', channel))[1]).toBe(1);
      });
      await before.wait(set.servers.length - 1, 20_000);
      await set.failOver();

      const after = openAdmin((await set.master()).url);
      const channel = `redisson_lock__channel:{${waited}}`;
      await eventually(
        async () => expect((await after.pubsub('NUMSUB', channel))[1]).toBe(1),
        30_000,
      );
      const releasedAt = performance.now();
      await after.multi().del(waited).publish(channel, '0').exec();
      const next = await waiting;
      measure('woken after', performance.now() - releasedAt, 'ms');
      expect(performance.now() - releasedAt).toBeLessThan(3_000);
      expect(await next.release()).toBe(true);
      expect(lock.isHeld).toBe(true);
      expect(await lock.release()).toBe(true);
    },
  );
});
