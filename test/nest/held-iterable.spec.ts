import { beforeEach, describe, expect, it } from '@jest/globals';
import { EventEmitter } from 'node:events';
import { Locked } from '../../libs/nestjs-locked/src/nest/decorator/locked.decorator.js';
import { RecordingLocks } from './recording-locks.js';

const LOCKED_ONCE = ['lock k', 'unlock k'];

class Reports {
  @Locked('k')
  async make<T>(result: T): Promise<T> {
    return Promise.resolve(result);
  }
}

class Cancellable<T> extends Promise<T> {
  static override get [Symbol.species](): PromiseConstructor {
    return Promise;
  }
  cancel(): string {
    return 'cancelled';
  }
}

class Cursor {
  onRow = (): string => 'row';
  async rewind(): Promise<this> {
    return Promise.resolve(this);
  }
  async count(): Promise<number> {
    return Promise.resolve(1);
  }
  async fail(): Promise<void> {
    return Promise.reject(new Error('cursor'));
  }
  cancellable(): Cancellable<string> {
    return Cancellable.resolve('value') as Cancellable<string>;
  }
  extended(): Promise<string> & { cancel?: () => string } {
    return Object.assign(Promise.resolve('value'), { cancel: () => 'cancelled' });
  }
  async *[Symbol.asyncIterator](): AsyncGenerator<number> {
    yield Promise.resolve(1);
  }
}

let locks: RecordingLocks;
let reports: Reports;
beforeEach(() => {
  locks = new RecordingLocks();
  reports = locks.give(new Reports());
});

async function read(values: AsyncIterable<unknown>): Promise<unknown[]> {
  const all: unknown[] = [];
  for await (const value of values) all.push(value);
  return all;
}

describe('a Promise of an object that can be iterated', () => {
  it('guards the iteration of the result of an async fluent member', async () => {
    const cursor = await reports.make(new Cursor());
    const rewound = await cursor.rewind();
    expect(rewound).toBe(cursor);
    await expect(read(rewound)).resolves.toEqual([1]);
    expect(locks.events).toEqual(LOCKED_ONCE);
  });

  it('leaves other Promises of its members as they are', async () => {
    const cursor = await reports.make(new Cursor());
    await expect(cursor.count()).resolves.toBe(1);
    await expect(cursor.fail()).rejects.toThrow('cursor');
    expect(cursor.cancellable().cancel()).toBe('cancelled');
    expect(cursor.extended().cancel?.()).toBe('cancelled');
  });

  it('returns the same method each time', async () => {
    const cursor = await reports.make(new Cursor());
    const emitter = new EventEmitter();
    emitter.on('row', cursor.onRow);
    emitter.off('row', cursor.onRow);
    expect(emitter.listenerCount('row')).toBe(0);
    expect(Reflect.get(cursor, 'count')).not.toBe(Reflect.get(cursor, 'rewind'));
    expect(cursor[Symbol.asyncIterator]).toBe(cursor[Symbol.asyncIterator]);
  });

  it.each(['plain', 'frozen'])('may return a %s function', async (how) => {
    const query = Object.assign((name: string) => `called ${name}`, {
      async *[Symbol.asyncIterator]() {
        yield await Promise.resolve(1);
      },
    });
    const result = await reports.make(how === 'frozen' ? Object.freeze(query) : query);
    expect(locks.events).toEqual(['lock k']);
    expect([result('me'), result.call(undefined, 'you')]).toEqual(['called me', 'called you']);
    await expect(read(result)).resolves.toEqual([1]);
    expect(locks.events).toEqual(LOCKED_ONCE);
  });
});
