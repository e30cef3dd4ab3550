/** What a lease makes of the renewals of a worker thread, while the event loop is blocked and when it turns again. */
import { describe, expect, it } from '@jest/globals';
import {
  LockCommitUnknownError,
  LockStoreError,
} from '../../libs/nestjs-locked/src/core/lock.errors.js';
import type { LockServiceOptions } from '../../libs/nestjs-locked/src/core/lock.options.js';
import type { Hold } from '../../libs/nestjs-locked/src/core/queue/hold.js';
import { LONGEST_BLOCK_MS } from '../../libs/nestjs-locked/src/core/store/lease-timing.js';
import { settled } from '../support/fake-clock.js';
import { PlayedWorker } from '../support/played-worker.js';
import { KEY, startScripted } from '../support/scripted-engine.js';
import { unknown } from '../support/scripted-store.js';

const LEASE_MS = 3_000;
/** For clock drift. */
const MARGIN_MS = 30;

const renewed = { kind: 'renewed', blockEnd: 0, waiters: 0 } as const;

async function start(options: LockServiceOptions = {}) {
  const started = await startScripted({ leaseMs: LEASE_MS, ...options });
  const worker = new PlayedWorker();
  started.store.backup = worker.memory;
  return { ...started, worker };
}

describe('while the event loop is blocked, a renewal of the worker thread', () => {
  it('keeps the lock, as everybody sees who asks at once', async () => {
    const { clock, worker, held } = await start();
    const { hold } = await held();
    const { signal } = hold;

    clock.block(2_000);
    worker.only().renewed(clock.now());
    clock.block(2_000); // more than the lease
    expect(hold.isHeld).toBe(true);
    expect(() => hold.assertHeld()).not.toThrow();
    expect(hold.remainingMs()).toBe(LEASE_MS - MARGIN_MS - 2_000);
    expect(hold.signal.aborted).toBe(false);
    worker.only().renewed(clock.now());
    clock.block(2_000);
    expect(hold.isHeld).toBe(true);
    clock.block(LEASE_MS - MARGIN_MS - 2_000 - 1);
    expect(hold.isHeld).toBe(true);
    clock.block(1);
    expect(hold.isHeld).toBe(false);
    expect(() => hold.assertHeld()).toThrow(expect.objectContaining({ reason: 'expired' }));
    expect(signal.aborted).toBe(true);
  });

  it('counts from its sending, not from its answer', async () => {
    const { clock, worker, held } = await start();
    const { hold } = await held();
    clock.block(1_500);
    const lease = worker.only();
    const sentAt = clock.now();
    clock.block(1_000);
    lease.renewed(sentAt);
    expect(hold.remainingMs()).toBe(LEASE_MS - MARGIN_MS - 1_000);
  });

  it('revives nothing that was over when it came', async () => {
    const { clock, worker, held } = await start();
    const { hold } = await held();
    const lease = worker.only();
    clock.block(LEASE_MS);
    expect(hold.isHeld).toBe(false);
    lease.renewed(clock.now() - 10);
    expect(worker.covered()).toEqual([]);
    expect(hold.isHeld).toBe(false);
    await clock.advance(0);
    expect(hold.signal.reason).toMatchObject({ reason: 'expired' });
  });

  it('does not last beyond the hold', async () => {
    const { clock, worker, held } = await start({ maxHoldMs: 4_000 });
    const { hold } = await held();
    const { signal } = hold;
    clock.block(2_000);
    worker.only().renewed(clock.now());
    clock.block(1_900);
    worker.only().renewed(clock.now());
    expect(hold.isHeld).toBe(true);
    clock.block(100);
    expect(hold.isHeld).toBe(false);
    clock.block(LEASE_MS); // both are over, the hold first
    await clock.advance(0);
    expect(signal.reason).toMatchObject({ reason: 'max-hold' });
  });

  it('that was sent before the machine slept does not tell whether the lock is held', async () => {
    const { clock, worker, held } = await start();
    const { hold } = await held();
    clock.block(1_500);
    const lease = worker.only();
    const sentAt = clock.now();
    clock.block(1);
    clock.stepWall(LEASE_MS);
    expect(hold.isHeld).toBe(false);
    lease.renewed(sentAt);
    expect(hold.isHeld).toBe(false);
    clock.block(1);
    worker.only().renewed(clock.now());
    expect(hold.isHeld).toBe(true);
  });
});

describe('when the event loop turns again', () => {
  it('the lock is still held, the main thread renews it, and tells that it was late', async () => {
    const { clock, store, events, worker, held } = await start();
    const { hold } = await held();
    for (let i = 0; i < 4; i++) {
      clock.block(2_000);
      worker.only().renewed(clock.now());
    }
    await clock.advance(0);
    expect(events).toMatchObject([{ type: 'renewed-late', isBackedUp: true, leases: 1 }]);
    expect(events).toMatchObject([{ lateMs: expect.closeTo(7_000, -2) }]);
    expect(events).toMatchObject([{ remainingMs: LEASE_MS - MARGIN_MS }]);
    (await store.next('renew')).reply(renewed);
    await settled();
    expect(hold.signal.aborted).toBe(false);

    clock.block(2_000);
    await clock.advance(0);
    expect(events.slice(1)).toMatchObject([{ type: 'renewed-late', isBackedUp: false }]);
  });

  it('that is told also if a renewal of the main thread was under way', async () => {
    const { clock, store, events, worker, held } = await start();
    const { hold } = await held();
    await clock.advance(1_000);
    const renewal = await store.next('renew');
    clock.block(1_000);
    worker.only().renewed(clock.now());
    clock.block(2_000);
    await clock.advance(0);
    renewal.reply(renewed);
    await settled();
    expect(hold.isHeld).toBe(true);
    expect(events).toMatchObject([{ type: 'renewed-late', isBackedUp: true }]);
    expect(await store.unanswered()).toEqual(['renew']);
  });

  it('calls of this process get the next numbers of the main thread', async () => {
    const { clock, store, engine, worker, held } = await start();
    const { hold } = await held();
    const next = engine.acquire(KEY);
    clock.block(2_000);
    worker.only().renewed(clock.now());
    clock.block(2_000);
    await clock.advance(0);
    (await store.next('renew')).reply(renewed);
    void hold.release();
    const lock = await next;
    expect(lock.fencingToken).toBe(hold.fencingToken + 1);
    expect(worker.only()).toMatchObject({ key: KEY, leaseMs: LEASE_MS });
  });

  it('what an operator did meanwhile is noticed', async () => {
    const { clock, store, worker, held } = await start();
    const { hold, token } = await held();
    clock.block(2_000);
    worker.only().renewed(clock.now());
    clock.block(1_000);
    store.listener.message({ kind: 'revoked', key: KEY, token });
    expect(hold.signal.reason).toMatchObject({ reason: 'revoked' });
    expect(worker.covered()).toEqual([]);
  });
});

describe('"not yours", said to the worker thread', () => {
  async function told() {
    const started = await start();
    const { hold } = await started.held();
    started.clock.block(2_000);
    started.worker.only().refused();
    return { ...started, hold };
  }

  it('makes it unknown whether the lock is held, until the main thread has asked', async () => {
    const { clock, store, worker, hold } = await told();
    expect(hold.isHeld).toBe(false);
    expect(() => hold.assertHeld()).toThrow(LockStoreError);
    expect(() => hold.assertHeld()).toThrow(/Redis told the worker thread that the lease is no/);
    expect(worker.covered()).toEqual([]);
    await clock.advance(0);
    (await store.next('renew')).reply(renewed);
    await settled();
    expect(hold.isHeld).toBe(true);
    expect(worker.covered()).toHaveLength(1);
  });

  it('is confirmed by the main thread', async () => {
    const { clock, store, hold } = await told();
    const { signal } = hold;
    await clock.advance(0);
    expect(signal.aborted).toBe(false);
    (await store.next('renew')).reply({ kind: 'lost' });
    await settled();
    expect(signal.reason).toMatchObject({ reason: 'deleted' });
  });

  it('is not confirmed by a renewal of the main thread that was sent before', async () => {
    const { clock, store, worker, held } = await start();
    const { hold } = await held();
    await clock.advance(1_000);
    const renewal = await store.next('renew');
    await clock.advance(500);
    worker.only().refused();
    expect(hold.isHeld).toBe(false);
    renewal.reply(renewed);
    await clock.advance(100);
    expect(hold.isHeld).toBe(false);
    (await store.next('renew')).reply(renewed);
    await settled();
    expect(hold.isHeld).toBe(true);
  });

  it('is the reason if the lease has ended before', async () => {
    const { clock, hold } = await told();
    const { signal } = hold;
    clock.block(LEASE_MS);
    await clock.advance(0);
    expect(signal.reason).toMatchObject({ reason: 'deleted' });
  });
});

describe('the worker thread', () => {
  it('begins when half of the lease is over, and ends with the hold', async () => {
    const { clock, worker, held } = await start({ maxHoldMs: 60_000 });
    const begun = clock.now();
    const { token } = await held();
    expect(worker.only()).toMatchObject({
      ...{ key: KEY, token, leaseMs: LEASE_MS, endsAt: begun + LEASE_MS - MARGIN_MS },
      ...{ dueAt: begun + LEASE_MS / 2 - MARGIN_MS, until: begun + 60_000 },
    });
    clock.block(60_000);
    await clock.advance(0);
    expect(worker.covered()).toEqual([]);
  });

  it('gives up after ten minutes without a renewal of the main thread, even if the hold has no end', async () => {
    const { clock, store, events, worker, held } = await start({ maxHoldMs: Infinity });
    const { hold } = await held();
    expect(worker.only().until).toBe(clock.now() + LONGEST_BLOCK_MS);
    await clock.advance(1_000);
    (await store.next('renew')).reply(renewed);
    await settled();
    const until = clock.now() + LONGEST_BLOCK_MS;
    expect(worker.only().until).toBe(until);
    for (let i = 0; i < 5; i++) {
      clock.block(2_000);
      worker.only().renewed(clock.now());
      expect(hold.signal.aborted).toBe(false); // as an endless loop may ask
      expect(worker.only().until).toBe(until);
    }
    await clock.advance(0);
    expect(events).toMatchObject([{ type: 'renewed-late', isBackedUp: true }]);
    expect(events).toMatchObject([{ lateMs: expect.closeTo(9_000, -2) }]);
    expect(await store.unanswered()).toEqual(['renew']);
  });

  it('has nothing to do with a lease that was released, and uses its place again', async () => {
    const { store, worker, held } = await start();
    for (let i = 0; i < 200; i++) {
      void (await held()).hold.release();
      (await store.next('release')).reply({ kind: 'released' });
    }
    const { hold } = await held();
    const first = worker.only();
    void hold.release();
    expect(worker.covered()).toEqual([]);
    (await store.next('release')).reply({ kind: 'released' });
    const { token } = await held();
    first.renewed(1); // late
    expect(worker.only().token).toBe(token);
    expect(worker.memory.segments).toHaveLength(1);
  });

  it('does not renew a fixed lease, nor one that lingers', async () => {
    const { clock, store, engine, worker, held } = await start({ lingerMs: 2_000 });
    const { hold } = await held();
    void hold.release();
    await settled();
    expect(engine.residue.queues).toBe(1); // it lingers
    expect(worker.covered()).toEqual([]);
    const again = await engine.acquire(KEY);
    expect(worker.covered()).toHaveLength(1);
    void again.release();
    await clock.advance(2_000);
    (await store.next('release')).reply({ kind: 'released' });
    await held({ renew: false });
    expect(worker.covered()).toEqual([]);
  });

  it('does not renew a lease before it is handed out', async () => {
    const { clock, store, grant, worker, waiting } = await start();
    const { token } = await waiting();
    await clock.advance(900);
    grant(token, 100, 0, 1_000); // too old to be used as it is
    expect((await store.next('renew')).command.token).toBe(token);
    expect(worker.covered()).toEqual([]);
  });

  it('does not renew a lease whose transaction may have been committed, or whose COMMIT is late', async () => {
    const { worker, held } = await start();
    const { hold: lock } = await held();
    const hold = lock.holds[0] as Hold;
    hold.commitIsLate();
    expect(worker.covered()).toEqual([]);
    hold.commitCame();
    expect(worker.covered()).toHaveLength(1);
    hold.commitUnknown(new LockCommitUnknownError('in doubt', KEY));
    expect(worker.covered()).toEqual([]);
  });

  it('may have renewed a lease until its end: what the store keeps is taken back as long', async () => {
    const { clock, store, engine, worker, held } = await start();
    const { hold } = await held();
    const next = engine.acquire(KEY, { leaseMs: 5_000 });
    void hold.release();
    const lock = await next;
    expect(worker.only().leaseMs).toBe(5_000);
    clock.block(LEASE_MS - MARGIN_MS);
    expect(lock.isHeld).toBe(false);
    void lock.release();
    (await store.next('release')).reply(unknown);
    for (let ms = 0; ms < 4_000; ms += 1_000) {
      await clock.advance(1_000);
      (await store.next('release')).reply(unknown);
    }
    await clock.advance(2_000); // the lease has ended
    while ((await store.unanswered()).length > 0) (await store.next('release')).reply(unknown);
    await clock.advance(10_000);
    expect(await store.unanswered()).toEqual([]);
  });
});
