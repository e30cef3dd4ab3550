import { afterEach, describe, expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../../../test/support/eventually.js';
import { standStill } from '../../../test/support/stand-still.js';
import { watchHeartbeat } from '../src/worker/heartbeat.js';
import { OwnClock } from '../src/worker/own-clock.js';

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

  it('was disturbed until its event loop has turned for so long, however long it stood still', async () => {
    const clock = new OwnClock();
    const stop = watchHeartbeat(
      () => {},
      (turnedMs) => clock.loopTurned(turnedMs),
    );
    expect(clock.wasDisturbedWithin(300)).toBe(false);
    clock.stepWall(1_000);
    standStill(500);
    await sleep(10);
    expect(clock.wasDisturbedWithin(300)).toBe(true);
    await eventually(() => expect(clock.wasDisturbedWithin(300)).toBe(false));
    stop();
  });
});
