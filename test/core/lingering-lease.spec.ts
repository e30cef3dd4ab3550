import { describe, expect, it } from '@jest/globals';
import { KEY, startScripted } from '../support/scripted-engine.js';
import { granted } from '../support/scripted-store.js';

describe('the answer to a renewal that comes when its lease lingers unused', () => {
  const answered = async (waiters: number) => {
    const { clock, store, held, nothingLeft } = await startScripted({ lingerMs: 20_000 });
    const { hold, token } = await held();
    await clock.advance(10_000);
    const renewal = await store.next('renew');
    expect(await hold.release()).toBe(true);
    renewal.reply({ kind: 'renewed', blockEnd: 2_000_000, waiters });
    return { clock, store, token, nothingLeft };
  };

  it('says that another process waits: the lease is given up at once', async () => {
    const { store, token, nothingLeft } = await answered(1);
    const release = await store.next('release');
    expect(release.command.token).toBe(token);
    release.reply({ kind: 'released' });
    await nothingLeft();
  });

  it('says that nobody waits: the lease is kept until its time is over', async () => {
    const { clock, store, token, nothingLeft } = await answered(0);
    await clock.advance(19_999);
    expect(await store.unanswered()).toEqual([]);
    await clock.advance(1);
    const release = await store.next('release');
    expect(release.command.token).toBe(token);
    release.reply({ kind: 'released' });
    await nothingLeft();
  });
});

it('a lease that lingered while the machine may have slept is given up, and asked for again', async () => {
  const { clock, store, engine, held } = await startScripted({ lingerMs: 20_000 });
  const { hold, token } = await held();
  await hold.release();
  clock.stepWall(600_000);
  const next = engine.acquire(KEY);
  const release = await store.next('release');
  expect(release.command.token).toBe(token);
  const ask = await store.next('acquire');
  expect(await store.unanswered()).toEqual([]);
  ask.reply(granted(ask.command.token, 900));
  expect((await next).fencingToken).toBe(900);
});

describe('a call that wants a lingering lease, and gives up before it has it', () => {
  const microtasks = async (): Promise<void> => {
    for (let i = 0; i < 20; i++) await Promise.resolve();
  };

  it('does not make it linger for longer', async () => {
    const { clock, store, engine, held } = await startScripted({ lingerMs: 20_000 });
    const { hold, token } = await held({ leaseMs: 600_000 });
    await hold.release();
    const other = engine.acquire('other', { leaseMs: 600_000 });
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    await (await other).release();
    await clock.advance(19_000);

    // In one turn of the event loop: 'other' is served, and too much time has passed when the second call comes.
    const again = engine.acquire('other', { leaseMs: 600_000 });
    await microtasks();
    for (const until = performance.now() + 10; performance.now() < until;);
    const controller = new AbortController();
    const call = engine.acquire(KEY, { leaseMs: 600_000, signal: controller.signal });
    const refused = expect(call).rejects.toMatchObject({ code: 'LOCK_ABORTED' });
    await microtasks();
    controller.abort();
    await refused;
    expect((await again).isHeld).toBe(true);

    await clock.advance(1_000);
    const release = await store.next('release');
    expect(release.command.token).toBe(token);
  });
});
