/** A store that must confirm what came as a message, as one does whose leases count only when replicas have them. */
import { describe, expect, it } from '@jest/globals';
import { LockStoreError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { settled } from '../support/fake-clock.js';
import { KEY, startScripted } from '../support/scripted-engine.js';
import { granted, unknown } from '../support/scripted-store.js';

const renewed = { kind: 'renewed', blockEnd: 2_000_000, waiters: 0 } as const;
const LEASE_MS = 30_000;
/** The margin for clocks that drift. */
const MARGIN_MS = 300;

async function startConfirming() {
  const scripted = await startScripted();
  scripted.store.mustConfirmMessages = true;
  return scripted;
}

describe('a grant that came as a message', () => {
  it('is renewed before a call gets it, and counts from the sending of that renewal [R61]', async () => {
    const { clock, store, waiting, grant } = await startConfirming();
    const { hold, token } = await waiting();
    await clock.advance(1_000);
    grant(token);
    const renewal = await store.next('renew');
    expect(renewal.command).toMatchObject({ token, leaseMs: LEASE_MS });
    const state = await Promise.race([hold, settled().then(() => 'nobody has it')]);
    expect(state).toBe('nobody has it');
    await clock.advance(100);
    renewal.reply(renewed);
    expect((await hold).remainingMs()).toBe(LEASE_MS - MARGIN_MS - 100);
  });

  it('is handed out at once if the store does not require a confirmation', async () => {
    const { store, waiting, grant } = await startScripted();
    const { hold, token } = await waiting();
    grant(token);
    expect((await hold).isHeld).toBe(true);
    expect(await store.unanswered()).toEqual([]);
  });

  it('is never handed out while the renewal is not acknowledged, and the error says why', async () => {
    const { clock, store, waiting, grant } = await startConfirming();
    const { hold, token } = await waiting({ waitMs: 2_000 });
    grant(token);
    (await store.next('renew')).reply(unknown);
    for (let i = 0; i < 40; i++) {
      await clock.advance(100);
      for (const kind of await store.unanswered()) {
        if (kind === 'renew') (await store.next('renew')).reply(unknown);
        else if (kind === 'release') (await store.next('release')).reply({ kind: 'released' });
        else throw new Error(kind);
      }
    }
    const error = await hold.catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(LockStoreError);
    expect(String(error)).toMatch(/the lock store failed .*: Redis hangs/);
  });
});

describe('a grant that came as a message, confirmed when nobody wants it any more', () => {
  it('is released, even if it is unknown whether it was prolonged', async () => {
    const { store, waiting, grant, nothingLeft } = await startConfirming();
    const giveUp = new AbortController();
    const { hold, token } = await waiting({ signal: giveUp.signal });
    grant(token);
    const renewal = await store.next('renew');
    giveUp.abort();
    await expect(hold).rejects.toMatchObject({ code: 'LOCK_ABORTED' });
    renewal.reply(unknown);
    const release = await store.next('release');
    expect(release.command.token).toBe(token);
    release.reply({ kind: 'released' });
    await settled();
    await nothingLeft();
  });
});

describe('a lease that was released and requested again', () => {
  it('counts as released if that is known, whatever became of the request', async () => {
    const { clock, store, engine, held, wanted, nothingLeft, events } = await startScripted({
      localHandovers: 0,
    });
    const { hold, token } = await held();
    wanted(token);
    const next = engine.acquire(KEY);
    const released = hold.release();
    const requeue = await store.next('requeue');
    requeue.reply({ ...unknown, wasReleased: true });
    expect(await released).toBe(true);
    const { newToken } = requeue.command;
    const leave = await store.next('leave');
    expect(leave.command).toMatchObject({ tokens: [newToken], take: false });
    leave.reply({ kind: 'left' });
    expect(events).toEqual([]);

    await clock.advance(100);
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    const last = (await next).release();
    (await store.next('release')).reply({ kind: 'released' });
    expect(await last).toBe(true);
    await nothingLeft();
  });

  it('counts as lost before if that is known', async () => {
    const { store, engine, held, wanted } = await startScripted({ localHandovers: 0 });
    const { hold, token } = await held();
    wanted(token);
    const next = engine.acquire(KEY);
    next.catch(() => {});
    const released = hold.release();
    (await store.next('requeue')).reply({ ...unknown, wasReleased: false });
    expect(await released).toBe(false);
  });
});
