import { expect, it } from '@jest/globals';
import { SuspendDetector } from '../../libs/nestjs-locked/src/core/time/suspend-detector.js';
import { FakeClock } from '../support/fake-clock.js';

it('steps of the wall clock that are too small to be told from a reading add up', () => {
  const clock = new FakeClock();
  const detector = new SuspendDetector(clock);
  clock.stepWall(3);
  expect(detector.look()).toBeUndefined();
  clock.stepWall(3);
  expect(detector.look()).toEqual({ noticedAt: clock.now(), ms: 6 });
  expect(detector.look()).toBeUndefined();
});

it('a process that stands still between the readings of its two clocks was not suspended', () => {
  const clock = new FakeClock();
  let standsStill = false;
  const wallNow = (): number => {
    if (standsStill) clock.block(100);
    standsStill = false;
    return clock.wallNow();
  };
  const readings = { now: () => clock.now(), after: clock.after.bind(clock), wallNow };
  standsStill = true;
  const detector = new SuspendDetector(readings);
  clock.stepWall(50); // the first reading does not hide it
  expect(detector.look()).toMatchObject({ ms: 50 });
  standsStill = true;
  expect(detector.look()).toBeUndefined();
  standsStill = true;
  clock.stepWall(20);
  expect(detector.look()).toMatchObject({ ms: 20 });
  standsStill = true;
  clock.stepWall(3); // too small, and not forgotten
  expect(detector.look()).toBeUndefined();
  clock.stepWall(3);
  expect(detector.look()).toMatchObject({ ms: 6 });
  expect(detector.look()).toBeUndefined();
});

it('steps that are too many to be remembered one by one are put together, and none is lost', async () => {
  const clock = new FakeClock();
  const detector = new SuspendDetector(clock);
  const sleptAfter = (moment: number): number =>
    detector.stepsAfter(moment).reduce((total, { ms }) => total + ms, 0);
  const moments: number[] = [];
  for (let i = 0; i < 200; i++) {
    moments.push(clock.now());
    await clock.advance(1);
    clock.stepWall(10);
    detector.look();
  }
  expect(detector.stepsAfter(-Infinity).length).toBeLessThan(100);
  expect(sleptAfter(-Infinity)).toBe(2_000);
  // A command that was sent between two of them must not seem to have seen the later one.
  for (const [i, moment] of moments.entries())
    expect(sleptAfter(moment)).toBeGreaterThanOrEqual(2_000 - 10 * i);
});
