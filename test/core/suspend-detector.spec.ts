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
