/** A restart of Redis, which restores its data from disk, while a lock is held and waited for. */
import { describe, expect } from '@jest/globals';
import { RedisServer } from 'dev-servers';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { fault } from '../support/fault-report.js';
import { openAdmin, openLocks } from '../support/open-locks.js';
import { uniqueKey } from '../support/unique-key.js';

const LEASE_MS = 15_000;

describe('Redis is killed and restarted', () => {
  fault(
    'with appendonly yes and appendfsync always',
    'the lock stays with its holder, the waiter keeps its turn, tokens rise [G13]',
    async (measure) => {
      const dir = mkdtempSync(join(tmpdir(), 'persistence-'));
      const args = ['--appendonly', 'yes', '--appendfsync', 'always'];
      const server = await RedisServer.start({ dir, args });
      afterTest(async () => {
        await server.stop();
        rmSync(dir, { recursive: true });
      });
      const holder = await openLocks(server.url, { leaseMs: LEASE_MS });
      const waiter = await openLocks(server.url, { leaseMs: LEASE_MS, waitMs: 60_000 });
      const key = uniqueKey();
      const lock = await holder.engine.acquire(key);
      const waiting = waiter.engine.acquire(key);
      const queue = async (): Promise<number> => openAdmin(server.url).zcard(`lock:{${key}}:queue`);
      await eventually(async () => expect(await queue()).toBe(1));

      const from = performance.now();
      await server.restart();

      expect(await openAdmin(server.url).get(`lock:{${key}}`)).toContain(holder.store.processId);
      expect(await queue()).toBe(1);
      await lock.ensureRemaining(LEASE_MS - 1_000);
      measure('renewed after', performance.now() - from, 'ms');
      expect(holder.events.filter(({ type }) => type === 'lost')).toEqual([]);
      expect(await lock.release()).toBe(true);
      const next = await waiting;
      expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
      expect(await next.release()).toBe(true);
    },
  );
});
