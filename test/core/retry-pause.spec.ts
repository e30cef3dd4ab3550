import { describe, expect, it } from '@jest/globals';
import { RetryPause } from '../../libs/nestjs-locked/src/core/store/retry-pause.js';

describe('RetryPause', () => {
  it('doubles from 100 ms, is never longer than a second, and begins again after an answer', () => {
    const pause = new RetryPause();
    const next = (): number => pause.next();
    expect([next(), next(), next(), next(), next(), next()]).toEqual([
      100, 200, 400, 800, 1_000, 1_000,
    ]);
    pause.reset();
    expect(next()).toBe(100);
  });
});
