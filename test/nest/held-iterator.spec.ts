import { beforeEach, describe, expect, it } from '@jest/globals';
import { Locked } from '../../libs/nestjs-locked/src/nest/decorator/locked.decorator.js';
import { RecordingLocks } from './recording-locks.js';

class Reports {
  @Locked('k')
  async make(source: AsyncIterable<number>): Promise<AsyncIterable<number>> {
    return Promise.resolve(source);
  }
}

describe('an iteration whose source has only a part of the methods', () => {
  let locks: RecordingLocks;
  let reports: Reports;
  beforeEach(() => {
    locks = new RecordingLocks();
    reports = locks.give(new Reports());
  });

  it('is left through return() if it has no throw()', async () => {
    const left: string[] = [];
    const cursor = await reports.make({
      [Symbol.asyncIterator]: () => ({
        next: async () => Promise.resolve({ value: 1, done: false }),
        return: async () => {
          left.push('return');
          return Promise.resolve({ value: undefined, done: true as const });
        },
      }),
    });
    const reader = cursor[Symbol.asyncIterator]();
    await reader.next();
    await expect(reader.throw?.(new Error('reader'))).rejects.toThrow('reader');
    expect(left).toEqual(['return']);
    expect(locks.events).toEqual(['lock k', 'unlock k']);
  });

  it('goes on after return() if it has none, and counts as a reader until it ends', async () => {
    const cursor = await reports.make({
      [Symbol.asyncIterator]: () => {
        let n = 0;
        return {
          next: async () =>
            Promise.resolve(
              ++n <= 2 ? { value: n, done: false } : { value: undefined, done: true as const },
            ),
        };
      },
    });
    const [one, other] = [cursor[Symbol.asyncIterator](), cursor[Symbol.asyncIterator]()];
    await Promise.all([one.next(), other.next()]);
    await one.return?.();
    expect(await one.next()).toEqual({ value: 2, done: false });
    expect(await one.next()).toEqual({ value: undefined, done: true });
    await other.next();
    expect(locks.events).toEqual(['lock k']);
    await other.next();
    expect(locks.events).toEqual(['lock k', 'unlock k']);
  });
});
