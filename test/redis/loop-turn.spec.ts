/** Calls that pass a key on in the microtask queue must not keep the event loop from turning. */
import { describe, expect, it } from '@jest/globals';
import type { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import { openLocks } from '../support/open-locks.js';
import { useRedisServer } from '../support/own-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const BUSY_MS = 500;

const server = useRedisServer();

/** Takes the lock again and again for a while, with work that awaits nothing from outside. */
async function keepTaking(engine: LockEngine, key: string, work: () => void): Promise<void> {
  const end = performance.now() + BUSY_MS;
  while (performance.now() < end) await engine.withLock(key, {}, work);
}

/** How long each turn of the event loop takes. */
function timeTurns(): { lengths: number[]; stop: () => void } {
  const lengths: number[] = [];
  let last = performance.now();
  const turn = (): void => {
    const now = performance.now();
    lengths.push(now - last);
    last = now;
    next = setImmediate(turn);
  };
  let next = setImmediate(turn);
  return { lengths, stop: () => clearImmediate(next) };
}

describe('calls that follow each other without leaving the microtask queue', () => {
  it.each([
    ['waiting for each other', {}, 8],
    ['one after the other, under a lease that lingers', { lingerMs: 5_000 }, 1],
  ])('let the event loop turn every few milliseconds: %s', async (_what, options, callers) => {
    const { engine } = await openLocks(server.url, options);
    const key = uniqueKey();
    const turns = timeTurns();

    const turnsOfHolds: number[] = [];
    const work = (): void => void turnsOfHolds.push(turns.lengths.length);
    await Promise.all(Array.from({ length: callers }, () => keepTaking(engine, key, work)));
    turns.stop();

    const inLongTurns = turns.lengths.filter((ms) => ms > 30).reduce((a, b) => a + b, 0);
    expect(inLongTurns).toBeLessThan(0.9 * BUSY_MS);
    const withoutTurn = turnsOfHolds.filter((turn, at) => turn === turnsOfHolds[at - 1]).length;
    expect(withoutTurn).toBeGreaterThan(turnsOfHolds.length / 2);
  });
});
