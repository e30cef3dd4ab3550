import { describe, expect, it } from '@jest/globals';
import {
  afterSilence,
  AwakeLimit,
  STALL_MS,
} from '../../libs/nestjs-locked/src/core/time/after-silence.js';
import { FakeClock } from '../support/fake-clock.js';

const LIMIT_MS = 600;

describe('the limit for an answer', () => {
  const start = (): { clock: FakeClock; isOver: () => boolean; cancel: () => void } => {
    const clock = new FakeClock();
    let isOver = false;
    const cancel = afterSilence(clock, LIMIT_MS, () => (isOver = true));
    return { clock, isOver: () => isOver, cancel };
  };

  it('ends when its time has passed, not before', async () => {
    const { clock, isOver } = start();
    await clock.advance(LIMIT_MS - 1);
    expect(isOver()).toBe(false);
    await clock.advance(1);
    expect(isOver()).toBe(true);
  });

  it.each([100, LIMIT_MS - 30, LIMIT_MS + 30, 5 * LIMIT_MS])(
    'excludes the time in which the event loop was blocked, %d ms, except for one check',
    async (blockedMs) => {
      const { clock, isOver } = start();
      clock.block(blockedMs);
      await clock.advance(LIMIT_MS - STALL_MS);
      expect(isOver()).toBe(false);
      await clock.advance(STALL_MS);
      expect(isOver()).toBe(true);
    },
  );

  it('also excludes a block that begins between the timer and the read', async () => {
    const clock = new FakeClock();
    const after = clock.after.bind(clock);
    let isFirst = true;
    clock.after = (ms, fire) =>
      after(ms, () => {
        fire();
        if (isFirst) clock.block(5 * LIMIT_MS);
        isFirst = false;
      });
    let isOver = false;
    afterSilence(clock, LIMIT_MS, () => (isOver = true));
    await clock.advance(5 * LIMIT_MS + STALL_MS);
    await clock.advance(LIMIT_MS - 2 * STALL_MS);
    expect(isOver).toBe(false);
    await clock.advance(STALL_MS);
    expect(isOver).toBe(true);
  });

  it('excludes no more of a block than has passed since the limit began', () => {
    const limit = new AwakeLimit(LIMIT_MS, 1_000);
    limit.stoodStill(5 * LIMIT_MS, 1_030);
    expect(limit.endsAt).toBe(1_030 + LIMIT_MS);
  });

  it('leaves no more time for an answer after a block than its own length', () => {
    const limit = new AwakeLimit(20, 1_000);
    limit.stoodStill(50, 1_065);
    expect(limit.endsAt).toBe(1_065 + 20);
  });

  it('excludes even a short block if the limit itself is short', async () => {
    const clock = new FakeClock();
    let isOver = false;
    afterSilence(clock, STALL_MS, () => (isOver = true));
    clock.block(0.7 * STALL_MS);
    await clock.advance(0.9 * STALL_MS);
    expect(isOver).toBe(false);
    await clock.advance(0.1 * STALL_MS);
    expect(isOver).toBe(true);
  });

  it('is checked fifty times at most, however long it is', async () => {
    const clock = new FakeClock();
    const after = clock.after.bind(clock);
    let looks = 0;
    clock.after = (ms, fire) => {
      looks++;
      return after(ms, fire);
    };
    let isOver = false;
    afterSilence(clock, 60_000, () => (isOver = true));
    await clock.advance(60_000);
    expect(isOver).toBe(true);
    expect(looks).toBeLessThanOrEqual(50);
  });

  it('leaves time for an answer if it would end right after a block, but only once', async () => {
    const { clock, isOver } = start();
    await clock.advance(LIMIT_MS - 1);
    clock.block(LIMIT_MS);
    await clock.advance(STALL_MS - 1);
    expect(isOver()).toBe(false);
    clock.block(LIMIT_MS);
    await clock.advance(1);
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
