/** How long the answers about one lease took, and for which calls that is too long. */
import { describe, expect, it } from '@jest/globals';
import { KEY, startScripted } from '../support/scripted-engine.js';
import { granted } from '../support/scripted-store.js';

const LEASE_MS = 1_000;
/** More than half of the lease. */
const SLOW_MS = 600;
const renewed = { kind: 'renewed', blockEnd: 2_000_000, waiters: 0 } as const;

describe('a grant that came by a message', () => {
  it('does not count as an answer, however long ago its token was introduced [D26]', async () => {
    const { clock, store, waiting, grant } = await startScripted();
    const { hold, token } = await waiting({ leaseMs: LEASE_MS });
    await clock.advance(2_000); // it waited for another holder
    grant(token);
    for (let i = 0; i < 2; i++) {
      const renewal = await store.next('renew');
      await clock.advance(SLOW_MS);
      renewal.reply(renewed);
    }
    (await store.next('renew')).reply(renewed); // two slow answers are not enough
    expect((await hold).isHeld).toBe(true);
  });
});

describe('a call whose wait ends while its lease is confirmed', () => {
  it('fails with the latest answer, not an earlier one', async () => {
    const { clock, store, engine, held } = await startScripted();
    const { hold } = await held({ leaseMs: LEASE_MS });
    const leaseMs = 4 * LEASE_MS;
    const next = engine.acquire(KEY, { leaseMs, waitMs: 3_000 }).catch((error: unknown) => error);
    void hold.release();
    const renewal = await store.next('renew');
    await clock.advance(2_100);
    renewal.reply(renewed);
    await store.next('renew');
    await clock.advance(3_000);
    expect(await next).toMatchObject({
      code: 'LOCK_STORE_FAILED',
      message: expect.stringContaining(
        'a round trip to Redis took 2100 ms, or this process stood still for that time, which is more than half of the lease of 4000 ms',
      ),
    });
  });
});

describe('a process that stands still for more than half of the lease, again and again', () => {
  it('does not blame the link alone when the call is refused', async () => {
    const { clock, store, engine } = await startScripted();
    const refused = engine
      .acquire(KEY, { leaseMs: LEASE_MS, waitMs: 60_000 })
      .catch((error: unknown) => error);
    const ask = await store.next('acquire');
    clock.block(SLOW_MS); // the answer is in the socket
    ask.reply(granted(ask.command.token));
    for (let i = 0; i < 2; i++) {
      const renewal = await store.next('renew');
      clock.block(SLOW_MS);
      renewal.reply(renewed);
    }
    expect(await refused).toMatchObject({
      code: 'LOCK_STORE_FAILED',
      message: expect.stringContaining(
        'a round trip to Redis took 600 ms, or this process stood still for that time',
      ),
    });
    expect((await store.next('release')).command).toMatchObject({ key: KEY });
  });
});

describe('a call that is refused because answers are too slow for its lease', () => {
  it('does not make other calls report a failed store', async () => {
    const { clock, store, engine } = await startScripted();
    const refused = expect(
      engine.acquire(KEY, { leaseMs: LEASE_MS, waitMs: 60_000 }),
    ).rejects.toMatchObject({ code: 'LOCK_STORE_FAILED' });
    const longer = engine.acquire(KEY, { leaseMs: 100 * LEASE_MS, waitMs: 60_000 });
    const ask = await store.next('acquire');
    clock.block(SLOW_MS);
    ask.reply(granted(ask.command.token));
    for (let i = 0; i < 2; i++) {
      const renewal = await store.next('renew');
      clock.block(SLOW_MS);
      renewal.reply(renewed);
    }
    await refused;
    const renewal = await store.next('renew'); // for the call that wants more
    const tried = engine.tryAcquire(KEY);
    renewal.reply(renewed);
    expect((await longer).isHeld).toBe(true);
    expect(await tried).toBeNull();
  });
});

describe('a round trip that is longer than the lease', () => {
  it('ends the call after three answers, although each lease has ended by then', async () => {
    const { clock, store, engine, nothingLeft } = await startScripted();
    const refused = engine
      .acquire(KEY, { leaseMs: LEASE_MS, waitMs: Infinity })
      .catch((error: unknown) => error);
    const first = await store.next('acquire');
    await clock.advance(1_200);
    first.reply(granted(first.command.token));
    const renewal = await store.next('renew');
    await clock.advance(1_200);
    renewal.reply({ kind: 'lost' });
    const second = await store.next('acquire');
    await clock.advance(1_200);
    second.reply(granted(second.command.token));
    expect(await refused).toMatchObject({
      code: 'LOCK_STORE_FAILED',
      message: expect.stringContaining('a round trip to Redis took 1200 ms'),
    });
    (await store.next('release')).reply({ kind: 'released' });
    await nothingLeft();
  });
});

describe('a slow answer to a waiter that checks again', () => {
  it('counts like any other', async () => {
    const { clock, store, waiting } = await startScripted();
    const { hold } = await waiting({ leaseMs: LEASE_MS, waitMs: 60_000 });
    const refused = expect(hold).rejects.toMatchObject({ code: 'LOCK_STORE_FAILED' });
    await clock.advance(5_001);
    const recheck = await store.next('recheck');
    await clock.advance(SLOW_MS);
    recheck.reply(granted(recheck.command.newToken));
    for (let i = 0; i < 2; i++) {
      const renewal = await store.next('renew');
      await clock.advance(SLOW_MS);
      renewal.reply(renewed);
    }
    await store.next('release'); // three slow answers are enough
    await refused;
  });
});
