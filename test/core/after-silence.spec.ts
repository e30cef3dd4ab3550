import { describe, expect, it } from '@jest/globals';
import { afterSilence } from '../../libs/nestjs-locked/src/core/time/after-silence.js';
import { FakeClock } from '../support/fake-clock.js';

const LIMIT_MS = 600;

describe('the limit for an answer', () => {
  const start = (): { clock: FakeClock; isOver: () => boolean; cancel: () => void } => {
    const clock = new FakeClock();
    let isOver = false;
    const cancel = afterSilence(clock, LIMIT_MS, () => (isOver = true));
    return { clock, isOver: () => isOver, cancel };
  };

  it('is over when it has passed, and not before', async () => {
    const { clock, isOver } = start();
    await clock.advance(LIMIT_MS - 1);
    expect(isOver()).toBe(false);
    await clock.advance(1);
    expect(isOver()).toBe(true);
  });

  it.each([
    ['until right before it', LIMIT_MS - 30],
    ['until right behind it', LIMIT_MS + 30],
    ['for longer', 5 * LIMIT_MS],
  ])('begins anew, once, if the event loop was blocked %s', async (_, blockedMs) => {
    const { clock, isOver } = start();
    clock.block(blockedMs);
    await clock.advance(LIMIT_MS - 1);
    expect(isOver()).toBe(false);
    clock.block(5 * LIMIT_MS);
    await clock.advance(1);
    expect(isOver()).toBe(true);
  });

  it('is the same if a block was over long before', async () => {
    const { clock, isOver } = start();
    clock.block(LIMIT_MS / 2);
    await clock.advance(LIMIT_MS / 2);
    expect(isOver()).toBe(true);
  });

  it.each([0, LIMIT_MS - 30, 2 * LIMIT_MS])('is cancelled after %d ms', async (blockedMs) => {
    const { clock, isOver, cancel } = start();
    clock.block(blockedMs);
    await clock.advance(0);
    cancel();
    await clock.advance(9 * LIMIT_MS);
    expect([isOver(), clock.timers]).toEqual([false, 0]);
  });
});
