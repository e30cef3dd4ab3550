/** What the engine does with locks in a quorum, between processes. */
import { describe, expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  LockDeadlockError,
  LockLostError,
  LockNotAdoptedError,
} from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { eventually } from '../support/eventually.js';
import { makeGate } from '../support/gate.js';
import { openQuorumLocks, useQuorum } from '../support/own-quorum.js';
import { startRing } from '../support/ring-of-calls.js';
import { uniqueKey } from '../support/unique-key.js';

const quorum = useQuorum();

type Service = Awaited<ReturnType<typeof openQuorumLocks>>;

describe('locks in a quorum', () => {
  it('go to the processes in the order in which they came [G54]', async () => {
    const services = await Promise.all(
      Array.from({ length: 5 }, () => openQuorumLocks(quorum.urls, { waitMs: 30_000 })),
    );
    const [first, ...others] = services as [Service, ...Service[]];
    const key = uniqueKey();
    const lock = await first.engine.acquire(key);
    const served: number[] = [];
    const waits: Promise<unknown>[] = [];
    for (const [i, { engine }] of others.entries()) {
      waits.push(engine.withLock(key, {}, () => served.push(i)));
      await sleep(30);
    }
    await lock.release();
    // Whoever asks again at once does not pass those that wait.
    waits.push(first.engine.withLock(key, {}, () => served.push(9)));
    await Promise.all(waits);
    expect(served).toEqual([0, 1, 2, 3, 9]);
  });

  it('are handed over within a process without a command [G54]', async () => {
    const { engine } = await openQuorumLocks(quorum.urls, { waitMs: 30_000 });
    const key = uniqueKey();
    const lock = await engine.acquire(key);
    const calls = async () => {
      const stats = await quorum.admins[0]?.info('commandstats');
      return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats ?? '')?.[1] ?? 0);
    };
    const before = await calls();
    const numbers: number[] = [lock.fencingToken];
    const waits = Array.from({ length: 20 }, () =>
      engine.withLock(key, {}, ({ fencingToken }) => void numbers.push(fencingToken)),
    );
    await lock.release();
    await Promise.all(waits);
    expect(numbers).toEqual([...numbers].sort((a, b) => a - b));
    expect(new Set(numbers).size).toBe(21);
    expect((await calls()) - before).toBeLessThan(5);
  });

  it('take several keys, all or none [G54]', async () => {
    const a = await openQuorumLocks(quorum.urls);
    const b = await openQuorumLocks(quorum.urls);
    const keys = [uniqueKey('1'), uniqueKey('2'), uniqueKey('3')];
    const held = await a.engine.acquire(keys[1] as string);
    expect(await b.engine.tryAcquire(keys)).toBeNull();
    const other = await a.engine.tryAcquire(keys[0] as string);
    expect(other).not.toBeNull();
    const waiting = b.engine.acquire(keys, { waitMs: 30_000 });
    await Promise.all([held.release(), other?.release()]);
    const all = await waiting;
    expect(await a.engine.tryAcquire(keys[2] as string)).toBeNull();
    expect(await all.release()).toBe(true);
  });

  it('linger until somebody else wants them [G54]', async () => {
    const a = await openQuorumLocks(quorum.urls, { lingerMs: 20_000 });
    const b = await openQuorumLocks(quorum.urls, { waitMs: 10_000 });
    const key = uniqueKey();
    await a.engine.withLock(key, {}, () => 1);
    expect(await quorum.admins[0]?.exists(`lock:{${key}}`)).toBe(1);
    const from = performance.now();
    await b.engine.withLock(key, {}, () => 1);
    expect(performance.now() - from).toBeLessThan(5_000);
  });

  it('are shown to operators, who can take them away [G54]', async () => {
    const a = await openQuorumLocks(quorum.urls, { waitMs: 30_000 });
    const b = await openQuorumLocks(quorum.urls, { waitMs: 30_000 });
    const key = uniqueKey();
    expect(await b.engine.inspect(key)).toBeNull();
    const lock = await a.engine.acquire(key, { label: 'holder' });
    const waiting = b.engine.acquire(key, { label: 'waiter' });
    await eventually(async () => expect(await a.engine.inspect(key)).toMatchObject({ waiters: 1 }));
    expect(await b.engine.inspect(key)).toMatchObject({
      state: 'held',
      holder: { processId: a.store.processId, label: 'holder', pid: process.pid },
      fencingToken: lock.fencingToken,
    });
    const listed: string[] = [];
    for await (const info of b.engine.list(`${key}*`)) listed.push(info.key);
    expect(listed).toEqual([key]);
    const lost = new Promise((resolve) => lock.signal.addEventListener('abort', resolve));
    expect(await b.engine.forceRelease(key)).toBe(true);
    await lost;
    expect(() => lock.assertHeld()).toThrow(LockLostError);
    const next = await waiting;
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    expect(await b.engine.ping()).toBeGreaterThan(0);
  });

  it('are freed by one error if calls of several processes wait for each other [G54]', async () => {
    const options = { leaseMs: 5_000, waitMs: 30_000 };
    const services = [
      await openQuorumLocks(quorum.urls, options),
      await openQuorumLocks(quorum.urls, options),
    ];
    const engines = services.map(({ engine }) => engine);
    const { ended } = startRing(engines, [uniqueKey(), uniqueKey()]);
    const errors = (await ended).flatMap((it) =>
      it.status === 'rejected' ? [it.reason as unknown] : [],
    );
    expect(errors).toEqual([expect.any(LockDeadlockError)]);
  });

  it('are left to another process, which adopts them once [G54]', async () => {
    const a = await openQuorumLocks(quorum.urls);
    const b = await openQuorumLocks(quorum.urls);
    const c = await openQuorumLocks(quorum.urls);
    const key = uniqueKey();
    const lock = await a.engine.acquire(key);
    const text = await lock.detach({ forMs: 20_000 });
    const outcomes = await Promise.allSettled([b.engine.adopt(text), c.engine.adopt(text)]);
    const adopted = outcomes.flatMap((it) => (it.status === 'fulfilled' ? [it.value] : []));
    expect(adopted).toHaveLength(1);
    const refused = outcomes.flatMap((it) =>
      it.status === 'rejected' ? [it.reason as unknown] : [],
    );
    expect(refused).toEqual([expect.any(LockNotAdoptedError)]);
    expect(adopted[0]?.fencingToken).toBeGreaterThan(lock.fencingToken);
    expect(await a.engine.tryAcquire(key)).toBeNull();
    expect(await adopted[0]?.release()).toBe(true);
  });

  it('make one process the leader, and another one after it [G54]', async () => {
    const a = await openQuorumLocks(quorum.urls, { leaseMs: 2_000 });
    const b = await openQuorumLocks(quorum.urls, { leaseMs: 2_000 });
    const key = uniqueKey();
    const leaders: string[] = [];
    const mayEnd = makeGate();
    const first = a.engine.lead(key, {}, async () => {
      leaders.push('a');
      await mayEnd.opened;
    });
    await eventually(() => expect(leaders).toEqual(['a']));
    const second = b.engine.lead(key, {}, () => Promise.resolve(void leaders.push('b')));
    await sleep(300);
    expect(leaders).toEqual(['a']);
    mayEnd.open();
    await eventually(() => expect(leaders).toContain('b'));
    await Promise.all([first.resign(), second.resign()]);
  });

  it('leave nothing behind but their fences [G54]', async () => {
    const a = await openQuorumLocks(quorum.urls, { waitMs: 30_000, keyPrefix: 'left:' });
    const b = await openQuorumLocks(quorum.urls, { waitMs: 30_000, keyPrefix: 'left:' });
    const work = ({ engine }: typeof a) =>
      Array.from({ length: 30 }, (_, i) => engine.withLock(`k${i % 3}`, {}, () => sleep(1)));
    await Promise.all([...work(a), ...work(b)]);
    await eventually(async () => {
      const left = await Promise.all(quorum.admins.map((admin) => admin.keys('left:{*')));
      expect(left.flat().filter((name) => !name.endsWith(':fence'))).toEqual([]);
    });
    for (const { engine } of [a, b]) expect(engine.residue).toMatchObject({ queues: 0, tokens: 0 });
  });
});
