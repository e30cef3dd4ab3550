import { beforeEach, describe, expect, it } from '@jest/globals';
import { EventEmitter, on, once } from 'node:events';
import { Readable } from 'node:stream';
import { setImmediate as immediate } from 'node:timers/promises';
import { Locked } from '../../libs/nestjs-locked/src/nest/decorator/locked.decorator.js';
import { TestLocks } from '../../libs/nestjs-locked/src/testing/test-locks.js';
import { withTestLocks } from '../../libs/nestjs-locked/src/testing/with-test-locks.js';
import { makeGate } from '../support/gate.js';
import { RecordingLocks } from './recording-locks.js';

const LOCKED_ONCE = ['lock k', 'unlock k'];
const DONE = { value: undefined, done: true };

let locks: RecordingLocks;
beforeEach(() => {
  locks = new RecordingLocks();
});

/** Until an event is recorded, which takes a few turns of the event loop. */
async function recorded(event: string): Promise<void> {
  while (!locks.events.includes(event)) await immediate();
}

describe('a reader that leaves a locked iterable while it awaits a value', () => {
  const emitter = new EventEmitter();

  class Events {
    @Locked('k', { returns: 'iterable' })
    events(): AsyncIterableIterator<unknown[]> {
      locks.events.push('work');
      return on(emitter, 'event') as AsyncIterableIterator<unknown[]>;
    }

    @Locked('k', { returns: 'iterable' })
    list(source: AsyncIterable<unknown>): AsyncIterableIterator<unknown> {
      return source as AsyncIterableIterator<unknown>;
    }
  }
  let events: Events;
  beforeEach(() => {
    events = locks.give(new Events());
  });

  it('releases the lock at once, and gets no value', async () => {
    const values = events.events();
    const next = values.next();
    await recorded('work');
    await expect(values.return?.('left')).resolves.toMatchObject({ done: true });
    expect(locks.events).toEqual(['lock k', 'work', 'unlock k']);
    await expect(next).resolves.toEqual(DONE);
    await expect(values.next()).resolves.toEqual(DONE);
    expect(emitter.listenerCount('event')).toBe(0);
  });

  it('may be a stream that is destroyed', async () => {
    const stream = Readable.from(events.events()).resume();
    await recorded('work');
    stream.destroy();
    await once(stream, 'close');
    await recorded('unlock k');
  });

  it('may leave with an error, even if the source does not answer, as `on` of events', async () => {
    let fail: ((error: Error) => void) | undefined;
    const values = events.list({
      [Symbol.asyncIterator]: () => ({
        next: () => new Promise((_, reject) => (fail = reject)),
        throw: async (error: Error) => Promise.resolve(fail?.(error)) as never,
      }),
    });
    const next = values.next().catch((error: unknown) => error);
    while (fail === undefined) await immediate();
    await expect(values.throw?.(new Error('reader'))).resolves.toEqual(DONE);
    expect(locks.events).toEqual(LOCKED_ONCE);
    await expect(next).resolves.toMatchObject({ message: 'reader' });
    await expect(values.next()).resolves.toEqual(DONE);
  });

  it('keeps the lock until that value if the source cannot be stopped', async () => {
    const { opened, open } = makeGate();
    const values = events.list({
      [Symbol.asyncIterator]: () => ({
        next: async () => {
          locks.events.push('work');
          await opened;
          locks.events.push('worked');
          return { value: 1, done: false };
        },
      }),
    });
    const next = values.next();
    await recorded('work');
    await expect(values.return?.('left')).resolves.toEqual({ value: 'left', done: true });
    await expect(values.next()).resolves.toEqual(DONE);
    expect(locks.events).toEqual(['lock k', 'work']);
    open();
    await expect(next).resolves.toEqual({ value: 1, done: false });
    expect(locks.events).toEqual(['lock k', 'work', 'worked', 'unlock k']);
  });

  it('keeps the lock while the source still works on an earlier value', async () => {
    const { opened, open } = makeGate();
    let asked = 0;
    const values = events.list({
      [Symbol.asyncIterator]: () => ({
        next: async () => {
          asked += 1;
          if (asked === 2) return { value: undefined, done: true as const };
          await opened;
          locks.events.push('worked');
          return { value: 1, done: false };
        },
      }),
    });
    const [first, second] = [values.next(), values.next()];
    await expect(second).resolves.toEqual(DONE);
    open();
    await expect(first).resolves.toEqual({ value: 1, done: false });
    expect(locks.events).toEqual(['lock k', 'worked', 'unlock k']);
  });

  it('gets the error once if it could not be opened, and has ended then', async () => {
    const values = events.list([1] as never);
    const [first, second] = await Promise.allSettled([values.next(), values.next()]);
    expect([first.status, second]).toEqual(['rejected', { status: 'fulfilled', value: DONE }]);
    await expect(values.next()).resolves.toEqual(DONE);
    await expect(values.return?.('left')).resolves.toEqual({ value: 'left', done: true });
    expect(locks.events).toEqual(LOCKED_ONCE);
  });

  it('throws before the first value, and takes no lock', async () => {
    const values = events.events();
    await expect(values.throw?.(new Error('reader'))).rejects.toThrow('reader');
    await expect(values.next()).resolves.toEqual(DONE);
    expect(locks.calls).toEqual([]);
  });
});

describe('a reader that leaves while somebody else has the lock', () => {
  const emitter = new EventEmitter();
  let calls = 0;

  class Feed {
    @Locked('k', { waitMs: 60_000 })
    async *waiting(): AsyncGenerator<number> {
      calls += 1;
      yield Promise.resolve(1);
    }

    @Locked('k', { waitMs: 0, onBusy: () => on(emitter, 'event') })
    async *substituted(): AsyncGenerator<unknown> {
      yield Promise.resolve(1);
    }
  }

  let testLocks: TestLocks;
  let feed: Feed;
  beforeEach(() => {
    calls = 0;
    testLocks = new TestLocks();
    feed = withTestLocks(new Feed(), testLocks);
    testLocks.hold('k');
  });

  it('ends the wait, and the method does not run', async () => {
    const values = feed.waiting();
    const next = values.next();
    await immediate();
    await expect(values.return('left')).resolves.toEqual({ value: 'left', done: true });
    await expect(next).resolves.toEqual(DONE);
    expect(calls).toBe(0);
  });

  it('closes the result of onBusy', async () => {
    const values = feed.substituted();
    const next = values.next();
    while (emitter.listenerCount('event') === 0) await immediate();
    await expect(values.return(undefined)).resolves.toEqual(DONE);
    await expect(next).resolves.toEqual(DONE);
    expect(emitter.listenerCount('event')).toBe(0);
  });
});

it('a reader that leaves when its turn has just come releases the lock, and the method does not run', async () => {
  let calls = 0;
  class Feed {
    @Locked('k')
    async *values(): AsyncGenerator<number> {
      calls += 1;
      yield Promise.resolve(1);
    }
  }
  const values = locks.give(new Feed()).values();
  const next = values.next();
  const push = locks.events.push.bind(locks.events);
  let left: Promise<unknown> | undefined;
  locks.events.push = (...events) => {
    left ??= values.return(undefined);
    return push(...events);
  };
  await expect(next).resolves.toEqual(DONE);
  await expect(left).resolves.toEqual(DONE);
  expect([calls, locks.events.slice()]).toEqual([0, LOCKED_ONCE]);
});
