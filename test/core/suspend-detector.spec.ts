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
  for (let i = 0; i < 200; i++) {
    await clock.advance(1);
    clock.stepWall(10);
    detector.look();
  }
  const steps = detector.stepsAfter(-Infinity);
  expect(steps.length).toBeLessThan(100);
  expect(steps.reduce((total, { ms }) => total + ms, 0)).toBe(2_000);
});
