import { expect } from '@jest/globals';
import { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import type {
  LockOptions,
  LockServiceOptions,
} from '../../libs/nestjs-locked/src/core/lock.options.js';
import type { LockEvent } from '../../libs/nestjs-locked/src/core/lock-events.js';
import { resolveServiceOptions } from '../../libs/nestjs-locked/src/core/resolved.options.js';
import { FakeClock, settled } from './fake-clock.js';
import { granted, queued, ScriptedStore } from './scripted-store.js';

export const KEY = 'stock:42';

/** An engine whose clock and store the test controls. */
export async function startScripted(options: LockServiceOptions = {}, store = new ScriptedStore()) {
  const clock = new FakeClock();
  const events: LockEvent[] = [];
  const engine = new LockEngine({
    store,
    clock,
    options: resolveServiceOptions(options),
    report: (event) => events.push(event),
    random: () => 0,
  });
  await engine.open();
  const grant = (token: string, fence = 100, waiters = 0, acceptMs = 3_000) =>
    store.listener.message({
      kind: 'grant',
      key: KEY,
      token,
      fence,
      blockEnd: fence + 1_000_000,
      waiters,
      acceptMs,
    });
  const wanted = (token: string) => store.listener.message({ kind: 'wanted', key: KEY, token });
  /** Starts a caller, and puts it into the store's queue. */
  const waiting = async (callOptions: LockOptions = {}) => {
    const hold = engine.acquire(KEY, callOptions);
    hold.catch(() => {});
    const ask = await store.next('acquire');
    ask.reply(queued(ask.command.token));
    await settled();
    return { hold, token: ask.command.token };
  };
  const held = async (callOptions: LockOptions = {}) => {
    const hold = engine.acquire(KEY, callOptions);
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    return { hold: await hold, token: ask.command.token };
  };
  const nothingLeft = async () => {
    expect(await store.unanswered()).toEqual([]);
    expect(engine.residue).toEqual({ queues: 0, tokens: 0, timers: 0 });
    expect(clock.timers).toBe(0);
  };
  return { clock, store, engine, events, grant, wanted, waiting, held, nothingLeft };
}
