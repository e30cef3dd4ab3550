/** A server that refuses commands of everybody while its connections work: what is reported, with which remedy. */
import { afterEach, describe, expect, it } from '@jest/globals';
import { LockStoreError } from 'nestjs-locked';
import { type Clock, systemClock } from '../../libs/nestjs-locked/src/core/time/clock.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { openAdmin, type OpenedLocks, openLocks } from '../support/open-locks.js';
import { newRedisStore } from '../support/open-redis-store.js';
import { useRedisServer } from '../support/own-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const server = useRedisServer({ args: ['--lua-time-limit', '50'] });

const told = ({ events }: OpenedLocks): string[] => events.map(({ type }) => type);

const reasonToldBy = ({ events }: OpenedLocks): string => {
  const [lost] = events;
  return lost?.type === 'rights-lost' ? lost.cause.message : '';
};

/** No connection is ever checked, so the proof is repeated only if something else causes it. */
const withoutChecks: Clock = {
  ...systemClock,
  after: (ms, fire) => (ms === 5_000 ? () => {} : systemClock.after(ms, fire)),
};

const openUnchecked = (): Promise<OpenedLocks> =>
  openLocks(server.url, { leaseMs: 30_000, clock: withoutChecks });

describe('a master that has fewer replicas than min-replicas-to-write requires', () => {
  const setReplicas = (count: number): Promise<unknown> =>
    server.admin.config('SET', 'min-replicas-to-write', count);
  const REMEDY = /NOREPLICAS.*; start the replicas that min-replicas-to-write requires/;

  afterEach(() => setReplicas(0));

  it('is reported once, as soon as a lock was refused; ping() fails until it is over', async () => {
    const locks = await openUnchecked();
    await setReplicas(1);
    await expect(locks.engine.tryAcquire(uniqueKey())).rejects.toBeInstanceOf(LockStoreError);
    await eventually(() => expect(told(locks)).toEqual(['rights-lost']));
    expect(reasonToldBy(locks)).toMatch(REMEDY);
    await expect(locks.engine.ping()).rejects.toThrow(REMEDY);
    await expect(locks.engine.tryAcquire(uniqueKey())).rejects.toBeInstanceOf(LockStoreError);
    expect(told(locks)).toEqual(['rights-lost']);

    await setReplicas(0);
    await eventually(() => expect(told(locks)).toEqual(['rights-lost', 'rights-back']));
    await expect(locks.engine.ping()).resolves.toBeGreaterThan(0);
    await (await locks.engine.acquire(uniqueKey())).release();
  });

  it('is reported at the start, with the remedy', async () => {
    await setReplicas(1);
    const { store, events } = newRedisStore(openAdmin(server.url), { startMs: 1_000 });
    await expect(store.open(events)).rejects.toThrow(REMEDY);
  });
});

describe('a server that a script blocks', () => {
  it('is reported once, and ping() fails until the script has ended', async () => {
    const locks = await openUnchecked();
    const blocking = openAdmin(server.url).eval('while true do end', 0);
    blocking.catch(() => {}); // it is killed
    afterTest(() => server.admin.script('KILL').catch(() => {}));
    await eventually(() => expect(server.admin.ping()).rejects.toThrow(/^BUSY/));
    await expect(locks.engine.tryAcquire(uniqueKey())).rejects.toBeInstanceOf(LockStoreError);
    await eventually(() => expect(told(locks)).toEqual(['rights-lost']));
    expect(reasonToldBy(locks)).toMatch(/^BUSY .* \(at redis:.*; end the script or function/);
    await expect(locks.engine.ping()).rejects.toBeInstanceOf(LockStoreError);

    await server.admin.script('KILL');
    await eventually(() => expect(told(locks)).toEqual(['rights-lost', 'rights-back']));
    await expect(locks.engine.ping()).resolves.toBeGreaterThan(0);
    await (await locks.engine.acquire(uniqueKey())).release();
  });
});
