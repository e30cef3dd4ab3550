/** Calls that pass a key on in the microtask queue must not keep the event loop from turning. */
import { describe, expect, it } from '@jest/globals';
import type { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import { openLocks } from '../support/open-locks.js';
import { useRedisServer } from '../support/own-redis.js';
import { uniqueKey } from '../support/unique-key.js';

/** The shortest time for which each work blocks the process. */
const WORK_MS = 1;
/** Longer than calls may pass a key on in one turn of the event loop, which is five milliseconds. */
const MOST_WORKS = 8;
const HOLDS = 100;

const server = useRedisServer();

function work(): void {
  for (const end = performance.now() + WORK_MS; performance.now() < end;);
}

/** Counts the turns of the event loop. */
function countTurns(): { readonly turns: number; stop: () => void } {
  let turns = 0;
  const turn = (): void => {
    turns++;
    next = setImmediate(turn);
  };
  let next = setImmediate(turn);
  return {
    get turns() {
      return turns;
    },
    stop: () => clearImmediate(next),
  };
}

/** This many holds one after the other, with work that awaits nothing. @returns how many there were in each turn */
async function holdsByTurn(engine: LockEngine, callers: number, inside: () => void) {
  const key = uniqueKey();
  const counter = countTurns();
  const holds = new Map<number, number>();
  let left = HOLDS;
  const keepTaking = async (): Promise<void> => {
    while (left-- > 0) {
      await engine.withLock(key, {}, () => {
        inside();
        holds.set(counter.turns, (holds.get(counter.turns) ?? 0) + 1);
      });
    }
  };
  await Promise.all(Array.from({ length: callers }, keepTaking));
  counter.stop();
  return [...holds.values()];
}

describe.each([
  ['waiting for each other', {}, 8],
  ['one after the other, under a lease that lingers', { lingerMs: 5_000 }, 1],
])(
  'calls that follow each other without leaving the microtask queue, %s',
  (_, options, callers) => {
    it('let the event loop turn every few milliseconds', async () => {
      const { engine } = await openLocks(server.url, options);
      const holds = await holdsByTurn(engine, callers, work);
      expect(Math.max(...holds)).toBeLessThanOrEqual(MOST_WORKS);
    });

    it('do not wait for the event loop each time', async () => {
      const { engine } = await openLocks(server.url, options);
      const holds = await holdsByTurn(engine, callers, () => {});
      // Five milliseconds are enough for all of them. A machine that pauses again and again leaves time for some.
      expect(Math.max(...holds)).toBeGreaterThan(2);
    });
  },
);
