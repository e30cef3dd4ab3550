import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { AsyncLocalStorage } from 'node:async_hooks';
import { systemClock } from '../../libs/nestjs-locked/src/core/time/clock.js';

const LONGEST_TIMEOUT_MS = 2 ** 31 - 1;

describe('systemClock', () => {
  beforeEach(() => void jest.useFakeTimers());
  afterEach(() => {
    jest.restoreAllMocks();
    jest.useRealTimers();
  });

  it('never fires for Infinity, and arms no timer [R7]', async () => {
    const fire = jest.fn();
    systemClock.after(Infinity, fire)();
    systemClock.after(Infinity, fire);
    expect(jest.getTimerCount()).toBe(0);
    await jest.advanceTimersByTimeAsync(60_000);
    expect(fire).not.toHaveBeenCalled();
  });

  it('waits longer than one timer of the platform can [R7]', async () => {
    const fire = jest.fn();
    const timeouts = jest.spyOn(globalThis, 'setTimeout');
    systemClock.after(LONGEST_TIMEOUT_MS + 60_000, fire);
    await jest.advanceTimersByTimeAsync(LONGEST_TIMEOUT_MS + 59_999);
    expect(fire).not.toHaveBeenCalled();
    await jest.advanceTimersByTimeAsync(1);
    expect(fire).toHaveBeenCalledTimes(1);
    expect(jest.getTimerCount()).toBe(0);
    // A longer one would fire at once.
    const delays = timeouts.mock.calls.map(([, ms]) => ms);
    expect(delays).toEqual([LONGEST_TIMEOUT_MS, 60_000]);
  });

  it('fires once, and not after it was cancelled, even in its second round', async () => {
    const fire = jest.fn();
    const cancel = systemClock.after(LONGEST_TIMEOUT_MS + 60_000, fire);
    await jest.advanceTimersByTimeAsync(LONGEST_TIMEOUT_MS + 1);
    cancel();
    cancel();
    expect(jest.getTimerCount()).toBe(0);
  });

  it('does not fire early if its time has fractions of a millisecond', async () => {
    const fire = jest.fn();
    systemClock.after(10.5, fire);
    await jest.advanceTimersByTimeAsync(10);
    expect(fire).not.toHaveBeenCalled();
    await jest.advanceTimersByTimeAsync(1);
    expect(fire).toHaveBeenCalledTimes(1);
  });

  it('fires in the async context of no request', async () => {
    jest.useRealTimers();
    const user = new AsyncLocalStorage<string>();
    const seen = await user.run(
      'alice',
      () => new Promise((resolve) => void systemClock.after(1, () => resolve(user.getStore()))),
    );
    expect(seen).toBeUndefined();
  });
});
