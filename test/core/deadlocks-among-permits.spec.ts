/** Calls that wait for each other, of which some have a permit of a key or want one: that proves nothing. */
import { describe, expect, it } from '@jest/globals';
import type { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import {
  LockDeadlockError,
  LockNotAcquiredError,
} from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { makeGate } from '../support/gate.js';
import { INTERVAL_MS, outcomes, startEngines, WAIT } from '../support/start-engines.js';

const PERMIT = { ...WAIT, permits: 2 };

/** One has `x` and wants `k`, of which two have a permit: these want `x`, or work until `done`. */
async function start(processes: number, wants: object, waiting: readonly boolean[]) {
  const started = startEngines(processes);
  const { engines, clock } = started;
  const engineOf = (i: number) => engines[i % engines.length] as LockEngine;
  const [begun, done] = [makeGate(), makeGate()];
  const permits = waiting.map((isWaiting, i) =>
    engineOf(i).withLock('k', PERMIT, async () => {
      await begun.opened;
      if (isWaiting) return engineOf(i).withLock('x', WAIT, () => `permit ${i}`);
      await done.opened;
      return `worked ${i}`;
    }),
  );
  await clock.advance(1);
  const other = engineOf(2).withLock('x', WAIT, async () => {
    begun.open();
    return engineOf(2).withLock('k', wants, () => 'other');
  });
  const ended = outcomes([...permits, other]);
  await clock.advance(1);
  return { ...started, done, ended };
}

describe.each([1, 2, 3])('in %s processes', (processes) => {
  it('who waits for a permit goes on with any of them, so there is no ring', async () => {
    const { clock, done, ended, deadlocks } = await start(processes, PERMIT, [false, true]);
    await clock.advance(1.5 * INTERVAL_MS);
    done.open();
    await clock.advance(1_000);
    expect(await ended).toEqual(['worked 0', 'permit 1', 'other']);
    expect(deadlocks()).toEqual([]);
  });

  it('a ring through all permits of a key is not seen, and ends in time', async () => {
    const { clock, ended, deadlocks } = await start(processes, PERMIT, [true, true]);
    await clock.advance(60_000);
    const errors = (await ended).filter((it) => it instanceof Error);
    expect(errors.length).toBeGreaterThan(0);
    for (const error of errors) {
      expect(error).toBeInstanceOf(LockNotAcquiredError);
      expect(error).not.toBeInstanceOf(LockDeadlockError);
    }
    expect(deadlocks()).toEqual([]);
  });

  it('who wants the key alone waits for every permit, so one that leads back is enough', async () => {
    const { clock, done, ended, deadlocks } = await start(processes, WAIT, [false, true]);
    await clock.advance(1.5 * INTERVAL_MS);
    expect(deadlocks()).toHaveLength(1);
    done.open();
    await clock.advance(1_000);
    const errors = (await ended).filter((it) => it instanceof Error);
    expect(errors).toEqual([expect.any(LockDeadlockError)]);
  });

  it('permits of calls that merely work are in no ring', async () => {
    const { clock, done, ended, deadlocks } = await start(processes, WAIT, [false, false]);
    await clock.advance(1.9 * INTERVAL_MS);
    done.open();
    await clock.advance(1_000);
    expect(await ended).toEqual(['worked 0', 'worked 1', 'other']);
    expect(deadlocks()).toEqual([]);
  });
});
