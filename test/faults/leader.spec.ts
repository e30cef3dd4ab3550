/** Leaders while Redis fails: two services campaign for a key. */
import { beforeEach, describe, expect } from '@jest/globals';
import { RedisReplicaSet } from 'dev-servers';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Leadership } from '../../libs/nestjs-locked/src/core/leadership.js';
import type { RedisConnectionOptions } from '../../libs/nestjs-locked/src/redis/connection/server/open-redis.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { fault } from '../support/fault-report.js';
import { LockObserver } from '../support/lock-observer.js';
import { type OpenedLocks, openLocksOn } from '../support/open-locks.js';
import { useRedisServer } from '../support/own-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const LEASE_MS = 3_000;
/** Upper bound for what takes milliseconds on an idle machine. */
const SOON_MS = 5_000;

const server = useRedisServer();
const observer = new LockObserver(server);
let key: string;

beforeEach(() => {
  key = uniqueKey();
});

interface Candidate extends OpenedLocks {
  readonly leadership: Leadership;
  /** Why each of its signals has aborted; undefined for the one that has not. */
  readonly turns: () => unknown[];
}

async function candidate(
  connection: RedisConnectionOptions,
  leaseMs = LEASE_MS,
): Promise<Candidate> {
  const opened = await openLocksOn(connection, { leaseMs });
  const signals: AbortSignal[] = [];
  const leadership = opened.engine.lead(key, {}, async (signal) => {
    signals.push(signal);
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
  });
  const turns = (): unknown[] => signals.map(({ reason }): unknown => reason);
  return { ...opened, leadership, turns };
}

/** The first leads, the second waits. */
async function twoCandidates(): Promise<[Candidate, Candidate]> {
  const first = await candidate(server.url);
  await leads(first);
  const second = await candidate(server.url);
  await observer.waiting(key, 1);
  return [first, second];
}

const leads = ({ leadership }: Candidate): Promise<void> =>
  eventually(() => expect(leadership.isLeader).toBe(true));

/** How often each event was told. */
function counted({ events }: Candidate, ...types: string[]): number[] {
  return types.map((wanted) => events.filter(({ type }) => type === wanted).length);
}

describe('leaders', () => {
  fault(
    'an operator takes the lock away',
    'the other one leads a second later, and the first one waits again',
    async () => {
      const [first, second] = await twoCandidates();
      await second.engine.forceRelease(key);
      await leads(second);
      expect(first.turns()).toMatchObject([{ reason: 'revoked' }]);
      expect(first.leadership.isLeader).toBe(false);
      await observer.waiting(key, 1);
      await second.leadership.resign();
      await leads(first);
    },
  );

  fault(
    'Redis restarts empty',
    'one of them leads again, and no campaign has ended [G14]',
    async () => {
      const candidates = await twoCandidates();
      await server.kill();
      await server.restart();
      await eventually(() => {
        const leading = candidates.filter(({ leadership }) => leadership.isLeader);
        expect(leading).toHaveLength(1);
      });
      await sleep(LEASE_MS); // the first one has noticed by now that its lock is gone, if it is
      const [leader, other] = candidates[0].leadership.isLeader
        ? candidates
        : [candidates[1], candidates[0]];
      await leads(leader);
      expect(other.leadership.isLeader).toBe(false);
      await leader.leadership.resign();
      await leads(other);
    },
  );

  fault(
    'Redis is away for longer than a lease',
    'nobody leads, both go on campaigning, and one leads when Redis is back',
    async (measure) => {
      const candidates = await twoCandidates();
      server.pause();
      afterTest(() => server.resume());
      await eventually(() => expect(candidates[0].turns()).toMatchObject([{ reason: 'expired' }]));
      await sleep(2 * LEASE_MS);
      expect(candidates.map(({ leadership }) => leadership.isLeader)).toEqual([false, false]);
      expect(counted(candidates[0], 'elected', 'deposed', 'store-lost')).toEqual([1, 1, 1]);
      // A request that was sent before the outage was known waits.
      expect(counted(candidates[0], 'campaign-failed')[0]).toBeLessThanOrEqual(1);

      const back = performance.now();
      server.resume();
      await eventually(() =>
        expect(candidates.some(({ leadership }) => leadership.isLeader)).toBe(true),
      );
      const ms = performance.now() - back;
      measure('led again after', ms, 'ms');
      expect(ms).toBeLessThan(LEASE_MS + SOON_MS);
    },
  );

  fault(
    'a planned failover of Sentinel',
    'the leader goes on, or another one leads at the new master',
    async () => {
      const set = await RedisReplicaSet.start();
      afterTest(() => set.stop());
      const connection = { sentinels: set.sentinels, name: set.name };
      const candidates = [await candidate(connection), await candidate(connection)] as const;
      await eventually(() =>
        expect(candidates.some(({ leadership }) => leadership.isLeader)).toBe(true),
      );
      await set.failOver();
      await sleep(LEASE_MS);
      const leading = await eventually(() => {
        const found = candidates.filter(({ leadership }) => leadership.isLeader);
        expect(found).toHaveLength(1);
        return found[0] as Candidate;
      });
      const [other] = candidates.filter((it) => it !== leading);
      await leading.leadership.resign();
      await leads(other as Candidate);
    },
  );
});
