import { afterEach, describe, expect, it } from '@jest/globals';
import { OwnClock } from '../apps/torture/src/worker/own-clock.js';
import { standStill } from './support/stand-still.js';

const realNow = performance.now.bind(performance);
const realWallNow = Date.now.bind(Date);

afterEach(() => {
  performance.now = realNow;
  Date.now = realWallNow;
});

/** How much its monotonic clock counts of a time in which the process stands still. */
function counted(clock: OwnClock, ms: number): number {
  clock.install();
  const before = performance.now();
  standStill(ms);
  return performance.now() - before;
}

describe('the clock of a worker of torture', () => {
  it('leaves out a suspend that it was told of, once', () => {
    const clock = new OwnClock();
    clock.expectSuspend(200);
    expect(counted(clock, 300)).toBeLessThan(100);
    expect(counted(clock, 300)).toBeGreaterThan(250);
  });

  it('counts a shorter pause', () => {
    const clock = new OwnClock();
    clock.expectSuspend(2_000);
    expect(counted(clock, 300)).toBeGreaterThan(250);
  });

  it('counts a later one: the suspend was over before the worker had heard of it', () => {
    const clock = new OwnClock();
    clock.expectSuspend(200);
    for (let n = 0; n < 12; n++) counted(clock, 100); // it works meanwhile
    expect(counted(clock, 300)).toBeGreaterThan(250);
  });
});
