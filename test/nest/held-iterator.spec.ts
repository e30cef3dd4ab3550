import { beforeEach, describe, expect, it } from '@jest/globals';
import { ReadableStream } from 'node:stream/web';
import { setImmediate as immediate } from 'node:timers/promises';
import { Locked } from '../../libs/nestjs-locked/src/nest/decorator/locked.decorator.js';
import { makeGate } from '../support/gate.js';
import { RecordingLocks } from './recording-locks.js';

class Reports {
  @Locked('k')
  async make(source: AsyncIterable<number>): Promise<AsyncIterable<number>> {
    return Promise.resolve(source);
  }
}

describe('an iteration whose source lacks some methods', () => {
  let locks: RecordingLocks;
  let reports: Reports;
  beforeEach(() => {
    locks = new RecordingLocks();
    reports = locks.give(new Reports());
  });

  it('ends through return() if it has no throw()', async () => {
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

  it('continues after return() if it has none, and counts as a reader until it ends', async () => {
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

it('an iteration that continues after return() counts as a reader between its values, too', async () => {
  const locks = new RecordingLocks();
  const source = { next: async () => Promise.resolve({ value: 1, done: false }) };
  const cursor = await locks.give(new Reports()).make({ [Symbol.asyncIterator]: () => source });
  const [one, other] = [cursor[Symbol.asyncIterator](), cursor[Symbol.asyncIterator]()];
  await one.return?.();
  await one.next();
  await other.return?.();
  expect(locks.events).toEqual(['lock k']);
  await one.return?.();
  expect(locks.events).toEqual(['lock k', 'unlock k']);
});

/** The source gives the awaited value at once when it is left, and closes its resources after that. */
describe('an iteration that is left while it awaits a value', () => {
  let locks: RecordingLocks;
  let reports: Reports;
  let mayClose: ReturnType<typeof makeGate>;
  beforeEach(() => {
    locks = new RecordingLocks();
    reports = locks.give(new Reports());
    mayClose = makeGate();
  });

  async function close(): Promise<void> {
    await mayClose.opened;
    locks.events.push('closed');
  }

  function cursor(fails: boolean): AsyncIterable<number> {
    let answer = (_result: IteratorResult<number>): void => {};
    const leave = async (): Promise<IteratorResult<number>> => {
      const end = { value: undefined, done: true as const };
      answer(end);
      await close();
      if (fails) throw new Error('not closed');
      return end;
    };
    const next = (): Promise<IteratorResult<number>> =>
      new Promise((resolve) => (answer = resolve));
    return { [Symbol.asyncIterator]: () => ({ next, return: leave, throw: leave }) };
  }

  function webStream(): ReadableStream<number> {
    return new ReadableStream({ pull: () => mayClose.opened, cancel: close });
  }

  async function expectHeldUntilClosed(
    pending: Promise<unknown>,
    ...leaving: Promise<unknown>[]
  ): Promise<void> {
    const left = Promise.allSettled(leaving);
    expect(await pending).toMatchObject({ done: true });
    for (let i = 0; i < 5; i++) await immediate();
    expect(locks.events).toEqual(['lock k']);
    mayClose.open();
    await left;
    expect(locks.events).toEqual(['lock k', ...leaving.map(() => 'closed'), 'unlock k']);
  }

  it.each([
    ['return()', false],
    ['return(), which fails', true],
  ])('keeps its lock until %s has ended', async (_, fails) => {
    const reader = (await reports.make(cursor(fails)))[Symbol.asyncIterator]();
    const pending = reader.next();
    await expectHeldUntilClosed(pending, reader.return?.() as Promise<unknown>);
  });

  it('also returns that value after the release, if the source gives it only when it was left', async () => {
    let answer = (_result: IteratorResult<number>): void => {};
    const end = { value: undefined, done: true as const };
    const next = (): Promise<IteratorResult<number>> =>
      new Promise((resolve) => (answer = resolve));
    const source = { next, return: () => Promise.resolve(end) };
    const made = await reports.make({ [Symbol.asyncIterator]: () => source });
    const reader = made[Symbol.asyncIterator]();
    const told = reader.next().then(() => [...locks.events]);
    const left = reader.return?.();
    for (let i = 0; i < 50; i++) await Promise.resolve(); // the release has begun, and takes a moment
    answer(end);
    expect(await told).toEqual(['lock k', 'unlock k']);
    await left;
  });

  it('keeps its lock until both of two calls have ended', async () => {
    const reader = (await reports.make(cursor(false)))[Symbol.asyncIterator]();
    const pending = reader.next();
    const [first, second] = [reader.return?.(), reader.throw?.(new Error('reader'))];
    await expectHeldUntilClosed(pending, first as Promise<unknown>, second as Promise<unknown>);
  });

  it('keeps its lock until a web stream is cancelled', async () => {
    const reader = ((await reports.make(webStream())) as ReadableStream<number>).getReader();
    const pending = reader.read();
    await expectHeldUntilClosed(pending, reader.cancel());
  });
});
