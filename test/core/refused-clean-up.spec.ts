/** What must be taken back from keys that the store refuses for lack of a right: how often it is tried, and when. */
import { describe, expect, it } from '@jest/globals';
import { CleanUp } from '../../libs/nestjs-locked/src/core/store/clean-up.js';
import type { Unknown } from '../../libs/nestjs-locked/src/core/store/lock-store.js';
import { Outages } from '../../libs/nestjs-locked/src/core/store/outages.js';
import { Scheduler } from '../../libs/nestjs-locked/src/core/time/scheduler.js';
import { FakeClock, settled } from '../support/fake-clock.js';
import { startScripted } from '../support/scripted-engine.js';
import { queued, ScriptedStore, unknown } from '../support/scripted-store.js';

const refused: Unknown = { ...unknown, isRefused: true };
const KEYS = 1_000;

/** Many calls have left a position in the queue of their key, and the store refuses to take them out. */
async function start() {
  const { clock, store, engine } = await startScripted();
  const controller = new AbortController();
  for (let i = 0; i < KEYS; i++) {
    engine.acquire(`k:${i}`, { signal: controller.signal }).catch(() => {});
    const ask = await store.next('acquire');
    ask.reply(queued(ask.command.token));
  }
  const tried: string[] = [];
  let isAllowed = (_key: string): boolean => false;
  store.takeBack = (commands) =>
    commands.map(async ({ key }) => {
      tried.push(key);
      return isAllowed(key) ? ({ kind: 'left' } as const) : refused;
    });
  await settled();
  controller.abort();
  await settled();
  expect(new Set(tried.splice(0)).size).toBe(KEYS);
  return {
    ...{ clock, store, engine, tried },
    allow: (which: (key: string) => boolean) => void (isAllowed = which),
  };
}

/** The clean-up alone, on a store that refuses the tokens that `isRefused` names. */
function startAlone(isRefused: (token: string) => boolean) {
  const [clock, store] = [new FakeClock(), new ScriptedStore()];
  const scheduler = new Scheduler(clock, { before: () => {}, after: () => {} });
  const cleanUp = new CleanUp(store, clock, scheduler, new Outages(store, clock, 0, () => {}));
  const tried: string[] = [];
  store.takeBack = (commands) =>
    commands.map(async ({ tokens: [token] }) => {
      tried.push(token);
      return isRefused(token) ? refused : ({ kind: 'left' } as const);
    });
  return { clock, store, cleanUp, tried };
}

/** Enough that none of them has its turn soon. */
function leaveOthers(cleanUp: CleanUp): void {
  for (let i = 0; i < KEYS; i++) cleanUp.leave(`k:${i}`, ['of others'], Infinity, () => {});
}

describe('what the store refuses to take back', () => {
  it('is tried 20 times a second at most, however much of it there is, and nothing is forgotten', async () => {
    const { clock, tried } = await start();
    for (let second = 0; second < 60; second++) await clock.advance(1_000);
    expect(tried.length).toBeGreaterThan(60);
    expect(tried.length).toBeLessThan(21 * 60);
    for (let second = 0; second < 60; second++) await clock.advance(1_000);
    expect(new Set(tried).size).toBe(KEYS);
  });

  it('is tried one after the other again after trying all of it at once has failed', async () => {
    const { clock, store, tried } = await start();
    for (let i = 0; i < 3; i++) {
      store.listener.storeBack();
      await settled();
      expect(new Set(tried.splice(0)).size).toBe(KEYS);
      await clock.advance(10_000);
      expect(tried.length).toBeGreaterThan(150);
      expect(tried.splice(0).length).toBeLessThan(250);
    }
  });

  it('is tried at once when the rights are back', async () => {
    const { clock, store, tried, allow } = await start();
    await clock.advance(60_000);
    tried.length = 0;
    allow(() => true);
    store.listener.rightsBack?.();
    await settled();
    expect(new Set(tried).size).toBe(KEYS);
    tried.length = 0;
    await clock.advance(120_000);
    expect(tried).toEqual([]);
  });

  it('is tried once when some of the keys are allowed again, and the others are not', async () => {
    const { clock, tried, allow } = await start();
    await clock.advance(60_000);
    tried.length = 0;
    allow((key) => Number(key.split(':')[1]) >= 900);
    await clock.advance(KEYS * 50);
    const counts = tried.filter((key) => key === 'k:907' || key === 'k:999');
    expect(counts.sort()).toEqual(['k:907', 'k:999']);
    expect(tried.length).toBeLessThan(3.5 * KEYS);
  });

  it('is tried at once when the first of the keys is allowed again', async () => {
    const { clock, tried, allow } = await start();
    await clock.advance(60_000);
    tried.length = 0;
    allow(() => true);
    await clock.advance(200);
    expect(new Set(tried).size).toBe(KEYS);
  });

  it('does not keep later entries from being taken back', async () => {
    const { store, engine, tried, allow } = await start();
    allow((key) => key === 'other');
    const controller = new AbortController();
    engine.acquire('other', { signal: controller.signal }).catch(() => {});
    const ask = await store.next('acquire');
    ask.reply(queued(ask.command.token));
    await settled();
    controller.abort();
    await settled();
    expect(tried).toEqual(['other']);
  });

  it('is tried within a second if somebody wants the key', async () => {
    const { clock, store, engine, allow } = await start();
    await clock.advance(60_000);
    allow((key) => key === 'k:999');
    const call = engine.acquire('k:999', { waitMs: 5_000 });
    call.catch(() => {});
    await clock.advance(1_000);
    const ask = await store.next('acquire');
    expect(ask.command.key).toBe('k:999');
  });

  it('is tried soon when somebody wants its key, although the rest for that key was allowed', async () => {
    const { clock, cleanUp, tried } = startAlone((token) => token !== 'allowed');
    leaveOthers(cleanUp);
    cleanUp.leave('mixed', ['refused'], Infinity, () => {});
    cleanUp.leave('mixed', ['allowed'], Infinity, () => {});
    await settled();
    expect(tried.splice(0)).toHaveLength(KEYS + 2);
    expect(cleanUp.stuckBy('mixed')).toBeDefined();
    await clock.advance(1_000);
    expect(tried).toContain('refused');
  });

  it('is not tried again at once when it is a release, and somebody wants its key', async () => {
    const { clock, store, cleanUp, tried } = startAlone(() => true);
    leaveOthers(cleanUp);
    await settled();
    store.release = async () => refused;
    await cleanUp.release({ key: 'k', token: 'released', used: 1 }, Infinity, () => {});
    await settled();
    tried.length = 0;
    expect(cleanUp.stuckBy('k')).toBeDefined();
    await clock.advance(900);
    expect(tried).not.toContain('released');
    await clock.advance(100);
    expect(tried).toContain('released');
  });

  it('does not block what came later for the key: that is sent ahead of a request', async () => {
    const { clock, cleanUp, tried } = startAlone((token) => token !== 'later');
    leaveOthers(cleanUp);
    cleanUp.leave('k', ['ended'], clock.now() + 100, () => {});
    await settled();
    cleanUp.leave('k', ['later'], Infinity, () => {});
    await clock.advance(200);
    expect(tried).not.toContain('later');
    expect(cleanUp.stuckBy('k')).toBeUndefined();
    expect(tried).toContain('later');
  });
});
