import { beforeEach, describe, expect, it } from '@jest/globals';
import { StreamableFile } from '@nestjs/common';
import {
  concat,
  defer,
  EMPTY,
  firstValueFrom,
  lastValueFrom,
  NEVER,
  Observable,
  of,
  Subject,
  type Subscription,
  take,
  throwError,
  toArray,
} from 'rxjs';
import { AsyncLocalStorage } from 'node:async_hooks';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { ReadableStream } from 'node:stream/web';
import { setImmediate as immediate } from 'node:timers/promises';
import { LOCK_RUNNER } from '../../libs/nestjs-locked/src/core/engine/lock-runner.js';
import { LockConfigError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { Locked } from '../../libs/nestjs-locked/src/nest/decorator/locked.decorator.js';
import { TestLocks } from '../../libs/nestjs-locked/src/testing/test-locks.js';
import { withTestLocks } from '../../libs/nestjs-locked/src/testing/with-test-locks.js';
import { makeGate } from '../support/gate.js';
import { RecordingLocks } from './recording-locks.js';

let locks: RecordingLocks;
beforeEach(() => {
  locks = new RecordingLocks();
});

/** A release takes one turn of the event loop, streams a few. A timer may overtake both when the machine is busy. */
const settled = async (): Promise<void> => {
  for (let turn = 0; turn < 10; turn += 1) await immediate();
};
const LOCKED_ONCE = ['lock k', 'unlock k'];

/** Whether the lock is held at this moment. */
const isHeld = (): boolean => locks.events.filter((event) => / k$/.test(event)).length % 2 === 1;

describe('a locked Observable', () => {
  class Prices {
    calls = 0;
    source: Observable<unknown> = of(1, 2);

    @Locked('k')
    watch(): Observable<unknown> {
      this.calls += 1;
      return this.source;
    }

    @Locked('k', { returns: 'observable' })
    unannotated() {
      this.calls += 1;
      return this.source;
    }
  }
  let prices: Prices;
  beforeEach(() => {
    prices = locks.give(new Prices());
  });

  it('takes the lock per subscription and releases it before it completes', async () => {
    const values = prices.watch();
    await settled();
    expect(prices.calls).toBe(0);
    await expect(lastValueFrom(values.pipe(toArray()))).resolves.toEqual([1, 2]);
    expect(locks.events).toEqual(LOCKED_ONCE);
    await lastValueFrom(values);
    expect(locks.events).toEqual([...LOCKED_ONCE, ...LOCKED_ONCE]);
    expect(prices.calls).toBe(2);
  });

  it('lets subscriptions take turns', async () => {
    prices.source = defer(() => {
      locks.events.push('work');
      return of(1);
    });
    const values = prices.watch();
    await Promise.all([lastValueFrom(values), lastValueFrom(values)]);
    expect(locks.events).toEqual(['lock k', 'work', 'unlock k', 'lock k', 'work', 'unlock k']);
  });

  it('keeps the lock until the source ends [D150]', async () => {
    const source = new Subject<number>();
    prices.source = source;
    const all = lastValueFrom(prices.watch().pipe(toArray()));
    await settled();
    source.next(1);
    await settled();
    expect(locks.events).toEqual(['lock k']);
    source.complete();
    await expect(all).resolves.toEqual([1]);
    expect(locks.events).toEqual(LOCKED_ONCE);
  });

  it('releases it on unsubscribe, even from a source that never stops by itself', async () => {
    prices.source = concat(of(1), NEVER);
    const subscription = prices.watch().subscribe();
    await settled();
    expect(locks.events).toEqual(['lock k']);
    subscription.unsubscribe();
    await settled();
    expect(locks.events).toEqual(LOCKED_ONCE);

    prices.source = new Observable((subscriber) => {
      for (let i = 0; !subscriber.closed; i += 1) subscriber.next(i);
    });
    await expect(lastValueFrom(prices.watch().pipe(take(3), toArray()))).resolves.toEqual([
      0, 1, 2,
    ]);
    await settled();
    expect(isHeld()).toBe(false);
  });

  it('passes errors on after the release, including those of the method', async () => {
    prices.source = throwError(() => new Error('source'));
    await expect(lastValueFrom(prices.watch())).rejects.toThrow('source');
    expect(locks.events).toEqual(LOCKED_ONCE);
    Object.defineProperty(prices, 'source', {
      get() {
        throw new Error('method');
      },
    });
    await expect(lastValueFrom(prices.watch())).rejects.toThrow('method');
    expect(isHeld()).toBe(false);
  });

  it('stops waiting when the subscriber leaves, and does not run the method', async () => {
    const release = await locks.hold('k');
    const subscription = prices.watch().subscribe();
    await settled();
    expect(locks.calls[1]?.options.signal?.aborted).toBe(false);
    subscription.unsubscribe();
    expect(locks.calls[1]?.options.signal?.aborted).toBe(true);
    release();
    await settled();
    expect(prices.calls).toBe(0);
  });

  it('never runs for a subscriber that left just when the lock came', async () => {
    const withLock = locks[LOCK_RUNNER].withLock.bind(locks);
    locks[LOCK_RUNNER].withLock = (key, options, work) =>
      withLock(key, options, (lock) => {
        subscription.unsubscribe();
        return work(lock);
      });
    const subscription: Subscription = prices.watch().subscribe();
    await settled();
    expect(locks.events).toEqual(LOCKED_ONCE);
    expect(prices.calls).toBe(0);
  });

  it.each([false, true])(
    'keeps the lock for an async method whose subscriber leaves (fails: %s)',
    async (fails) => {
      const mayEnd = makeGate();
      class Report {
        @Locked('k', { returns: 'observable' })
        async make(): Promise<number> {
          await mayEnd.opened;
          if (fails) throw new Error('no paper');
          return 1;
        }
      }
      const report = locks.give(new Report()).make() as unknown as Observable<number>;
      const subscription = report.subscribe();
      await settled();
      subscription.unsubscribe();
      await settled();
      expect(locks.events).toEqual(['lock k']);
      mayEnd.open();
      await settled();
      expect(locks.events).toEqual(LOCKED_ONCE);
    },
  );

  it('is made if `returns` says so and the type is not known', async () => {
    await expect(firstValueFrom(prices.unannotated())).resolves.toBe(1);
    await settled();
    expect(locks.events).toEqual(LOCKED_ONCE);
  });
});

describe('a locked async generator', () => {
  const storage = new AsyncLocalStorage<string>();

  class Pages {
    calls = 0;
    @Locked('k')
    async *pages(failAt = Infinity): AsyncGenerator<number, string> {
      this.calls += 1;
      try {
        for (let page = 1; page <= 3; page += 1) {
          if (page === failAt) throw new Error('page');
          await Promise.resolve();
          locks.events.push(`page ${page}`);
          yield page;
        }
        return 'end';
      } finally {
        locks.events.push('clean-up');
      }
    }

    @Locked('k', { returns: 'iterable' })
    list(values: unknown): AsyncIterable<unknown> {
      this.calls += 1;
      return values as AsyncIterable<unknown>;
    }

    @Locked('k')
    async *stored(): AsyncGenerator<unknown> {
      yield storage.getStore();
      await Promise.resolve();
      yield storage.getStore();
    }
  }
  let pages: Pages;
  beforeEach(() => {
    pages = locks.give(new Pages());
  });

  async function read(values: AsyncIterable<unknown>): Promise<unknown[]> {
    const all: unknown[] = [];
    for await (const value of values) all.push(value);
    return all;
  }

  it('takes the lock at the first value and keeps it to the end [D150]', async () => {
    const values = pages.pages();
    await settled();
    expect([pages.calls, locks.events]).toEqual([0, []]);
    await expect(values.next()).resolves.toEqual({ value: 1, done: false });
    await settled();
    expect(locks.events).toEqual(['lock k', 'page 1']);
    await values.next();
    await values.next();
    await expect(values.next()).resolves.toEqual({ value: 'end', done: true });
    expect(locks.events.slice(-2)).toEqual(['clean-up', 'unlock k']);
    await expect(values.next()).resolves.toEqual({ value: undefined, done: true });
  });

  it('releases it when the reader stops early, after the clean-up', async () => {
    for await (const page of pages.pages()) if (page === 2) break;
    expect(locks.events).toEqual(['lock k', 'page 1', 'page 2', 'clean-up', 'unlock k']);
  });

  it('releases it when it fails', async () => {
    await expect(read(pages.pages(2))).rejects.toThrow('page');
    expect(locks.events).toEqual(['lock k', 'page 1', 'clean-up', 'unlock k']);
  });

  it('passes throw() on', async () => {
    const values = pages.pages();
    await values.next();
    await expect(values.throw(new Error('reader'))).rejects.toThrow('reader');
    expect(locks.events).toEqual(['lock k', 'page 1', 'clean-up', 'unlock k']);
  });

  it('lets the method handle what the reader throws', async () => {
    class Patient {
      @Locked('k')
      async *each(): AsyncGenerator<unknown> {
        try {
          yield await Promise.resolve(1);
        } catch (error) {
          yield error;
        }
      }
    }
    const values = locks.give(new Patient()).each();
    await values.next();
    await expect(values.throw('reader')).resolves.toEqual({ value: 'reader', done: false });
    expect(isHeld()).toBe(true);
    await values.next();
    expect(locks.events).toEqual(LOCKED_ONCE);
  });

  it('takes no lock when it is left before the first value', async () => {
    const values = pages.pages();
    await expect(values.return('left')).resolves.toEqual({ value: 'left', done: true });
    expect([pages.calls, locks.calls]).toEqual([0, []]);
  });

  it('runs in the context where the lock was taken, whoever asks for the next value', async () => {
    const values = pages.stored();
    const first = await storage.run('request', () => values.next());
    const second = await storage.run('other', () => values.next());
    expect([first.value, second.value]).toEqual(['request', 'request']);
    await values.return(undefined);
  });

  it('is empty when the lock service skips the work', async () => {
    locks[LOCK_RUNNER].withLock = () => Promise.resolve(undefined as never);
    await expect(read(pages.pages())).resolves.toEqual([]);
    expect(pages.calls).toBe(0);
  });

  it('is made if `returns` says so, for methods that pass an iterable on', async () => {
    await expect(read(pages.list(Readable.from([1, 2])))).resolves.toEqual([1, 2]);
    expect(locks.events).toEqual(LOCKED_ONCE);
    await expect(read(pages.list([1]))).rejects.toThrow(
      'Cannot iterate the result of Pages.list: it is not an async iterable',
    );
    expect(isHeld()).toBe(false);
  });
});

describe('a Promise of a result that continues', () => {
  class Reports {
    @Locked('k')
    async make<T>(result: T): Promise<T> {
      return Promise.resolve(result);
    }
  }
  let reports: Reports;
  beforeEach(() => {
    reports = locks.give(new Reports());
  });

  it('keeps the lock until the Observable has ended', async () => {
    const source = new Subject<number>();
    const values = await reports.make(source.asObservable());
    const all = lastValueFrom(values.pipe(toArray()));
    source.next(1);
    await settled();
    expect(locks.events).toEqual(['lock k']);
    source.complete();
    await expect(all).resolves.toEqual([1]);
    expect(locks.events).toEqual(LOCKED_ONCE);
  });

  it('releases it with the last subscription and refuses later ones', async () => {
    const values = await reports.make(NEVER);
    const [one, two] = [values.subscribe(), values.subscribe()];
    one.unsubscribe();
    await settled();
    expect(locks.events).toEqual(['lock k']);
    two.unsubscribe();
    await settled();
    expect(locks.events).toEqual(LOCKED_ONCE);
    await expect(lastValueFrom(values)).rejects.toThrow(
      "Cannot subscribe to the result of Reports.make: its lock was released when the first subscription ended; set returns: 'observable'",
    );
  });

  it.each<[string, () => object]>([
    [
      'has every name',
      () => new Proxy({}, { get: (_, name) => (name === 'then' ? undefined : () => 1) }),
    ],
    ['only has methods of a stream', () => ({ pipe: () => {}, on: () => {}, read: () => {} })],
    [
      'refuses unknown names',
      () =>
        new Proxy(
          {},
          {
            get(_, name) {
              if (name === 'then') return undefined;
              throw new Error('no such member');
            },
          },
        ),
    ],
  ])('a result that %s is a value like any other', async (_, make) => {
    const result = make();
    expect((await reports.make(result)) === result).toBe(true);
    expect(locks.events).toEqual(LOCKED_ONCE);
  });

  it('passes the error of the Observable on', async () => {
    const values = await reports.make(throwError(() => new Error('source')));
    await expect(lastValueFrom(values)).rejects.toThrow('source');
    expect(locks.events).toEqual(LOCKED_ONCE);
    await lastValueFrom(await reports.make(EMPTY), { defaultValue: 0 });
    expect(isHeld()).toBe(false);
  });

  async function* numbers(): AsyncGenerator<number> {
    yield Promise.resolve(1);
    yield 2;
  }

  it('keeps the lock until the async generator has ended', async () => {
    const values = await reports.make(numbers());
    await values.next();
    await settled();
    expect(locks.events).toEqual(['lock k']);
    await values.next();
    await values.next();
    expect(locks.events).toEqual(LOCKED_ONCE);
  });

  it('releases it when the async generator is left, even before it began', async () => {
    const values = await reports.make(numbers());
    await values.return(undefined);
    expect(locks.events).toEqual(LOCKED_ONCE);
  });

  it('releases it once when the async generator fails, and has ended then', async () => {
    const failing = async function* (): AsyncGenerator<number> {
      yield Promise.reject(new Error('generator'));
    };
    const values = await reports.make(failing());
    await expect(values.next()).rejects.toThrow('generator');
    expect(locks.events).toEqual(LOCKED_ONCE);
    await expect(values.next()).resolves.toEqual({ value: undefined, done: true });
  });

  it('keeps the other members of an iterable object, and guards its iteration', async () => {
    class Cursor {
      #size = 2;
      get size(): number {
        return this.#size;
      }
      double(): number {
        return this.#size * 2;
      }
      async *[Symbol.asyncIterator](): AsyncGenerator<number> {
        for (let i = 0; i < this.#size; i += 1) yield Promise.resolve(i);
      }
    }
    const cursor = await reports.make(new Cursor());
    expect([cursor instanceof Cursor, cursor.size, cursor.double()]).toEqual([true, 2, 4]);
    expect(locks.events).toEqual(['lock k']);
    const read: number[] = [];
    for await (const value of cursor) read.push(value);
    expect(read).toEqual([0, 1]);
    expect(locks.events).toEqual(LOCKED_ONCE);
    expect(() => cursor[Symbol.asyncIterator]()).toThrow(
      'Cannot iterate the result of Reports.make again',
    );
  });

  it.each(['readable', 'fixed'])(
    'sets members of an iterable object with a %s one',
    async (how) => {
      class Cursor {
        #size = 2;
        name = 'none';
        get size(): number {
          return this.#size;
        }
        set size(size: number) {
          this.#size = size;
        }
        async *[Symbol.asyncIterator](): AsyncGenerator<string> {
          for (let i = 0; i < this.#size; i += 1) yield Promise.resolve(this.name);
        }
      }
      const rows = new Cursor();
      if (how === 'fixed') Object.defineProperty(rows, 'id', { value: 1 });
      const cursor = await reports.make(rows);
      [cursor.size, cursor.name] = [1, 'one'];
      expect([cursor.size, cursor.name]).toEqual([1, 'one']);
      const read: string[] = [];
      for await (const value of cursor) read.push(value);
      expect(read).toEqual(['one']);
    },
  );

  class Cursor {
    static open(): Cursor {
      return new Cursor();
    }
    Row = class Row {};
    size = 1;
    more(): this {
      this.size += 1;
      return this;
    }
    async *[Symbol.asyncIterator](): AsyncGenerator<number> {
      for (let i = 0; i < this.size; i += 1) yield Promise.resolve(i);
    }
  }

  it('guards the iteration of the result of a fluent member of an iterable object', async () => {
    const cursor = await reports.make(new Cursor());
    const read: number[] = [];
    for await (const value of cursor.more().more()) read.push(value);
    expect(read).toEqual([0, 1, 2]);
    expect(locks.events).toEqual(LOCKED_ONCE);
  });

  it('keeps the classes of an iterable object', async () => {
    const cursor = await reports.make(new Cursor());
    expect(cursor.constructor).toBe(Cursor);
    expect((cursor.constructor as typeof Cursor).open()).toBeInstanceOf(Cursor);
    const { Row } = cursor;
    expect(new Row()).toBeInstanceOf(Row);
  });

  it('lets an object inherit from an iterable one, and have members of its own', async () => {
    const cursor = await reports.make(new Cursor());
    const child = Object.create(cursor) as Cursor & { name: string };
    [child.name, child.size] = ['child', 5];
    expect([Object.keys(child), child.size]).toEqual([['name', 'size'], 5]);
    expect([cursor.size, 'name' in cursor]).toEqual([1, false]);
  });

  it('shows the new members of an iterable object that has a read-only one', async () => {
    const rows: Cursor & { id?: string; added?: number } = new Cursor();
    Object.defineProperty(rows, 'id', { value: 'one', enumerable: true });
    const cursor = await reports.make(rows);
    cursor.added = 1;
    expect(['added' in cursor, Object.keys(cursor)]).toEqual([
      true,
      ['Row', 'size', 'id', 'added'],
    ]);
    expect([delete cursor.added, 'added' in cursor, cursor.id]).toEqual([true, false, 'one']);
  });

  it.each(['the caller', 'the method'])('lets %s freeze an iterable object later', async (who) => {
    const rows = Object.assign(new Cursor(), { close: () => 'closed' });
    const cursor = await reports.make(rows);
    Object.freeze(who === 'the caller' ? cursor : rows);
    expect([cursor.size, cursor.close()]).toEqual([1, 'closed']);
    expect(() => cursor.more()).toThrow(TypeError);
    const read: number[] = [];
    for await (const value of cursor) read.push(value);
    expect(read).toEqual([0]);
    expect(locks.events).toEqual(LOCKED_ONCE);
  });

  it('keeps the members of a frozen iterable object, and guards its iteration', async () => {
    const rows = Object.freeze({
      name: 'rows',
      double: (size: number) => 2 * size,
      async *[Symbol.asyncIterator]() {
        yield Promise.resolve(this.name);
      },
    });
    const result = await reports.make(rows);
    expect([result.name, result.double(2), Object.keys(result)]).toEqual([
      ...['rows', 4],
      ['name', 'double'],
    ]);
    expect(locks.events).toEqual(['lock k']);
    const read: string[] = [];
    for await (const value of result) read.push(value);
    expect(read).toEqual(['rows']);
    expect(locks.events).toEqual(LOCKED_ONCE);
  });

  it.each(['breaks off', 'fails'])('keeps the lock for all readers when one %s', async (how) => {
    const cursor = await reports.make({
      async *[Symbol.asyncIterator]() {
        for (let i = 0; i < 3; i += 1) yield Promise.resolve(i);
      },
    });
    const [one, other] = [cursor[Symbol.asyncIterator](), cursor[Symbol.asyncIterator]()];
    await Promise.all([one.next(), other.next()]);
    if (how === 'fails') await expect(one.throw(new Error('reader'))).rejects.toThrow('reader');
    else await one.return(undefined);
    await expect(one.next()).resolves.toEqual({ value: undefined, done: true });
    await one.return(undefined); // once more
    expect(locks.events).toEqual(['lock k']);
    await expect(other.next()).resolves.toEqual({ value: 1, done: false });
    await other.next();
    expect(locks.events).toEqual(['lock k']);
    await expect(other.next()).resolves.toEqual({ value: undefined, done: true });
    expect(locks.events).toEqual(LOCKED_ONCE);
    expect(() => cursor[Symbol.asyncIterator]()).toThrow('its lock was released');
  });

  it('reads no more for a reader that continues after the lock was released', async () => {
    let reads = 0;
    const cursor = await reports.make({
      next: async () => Promise.resolve({ value: (reads += 1), done: false }),
      [Symbol.asyncIterator]() {
        return this;
      },
    });
    for await (const value of cursor) if (value === 2) break;
    expect(locks.events).toEqual(LOCKED_ONCE);
    await expect(cursor.next()).rejects.toThrow('Cannot iterate the result of Reports.make again');
    expect(reads).toBe(2);
  });

  it('releases it when the iteration cannot begin', async () => {
    const cursor = await reports.make({
      [Symbol.asyncIterator](): AsyncIterator<number> {
        throw new Error('closed');
      },
    });
    expect(() => cursor[Symbol.asyncIterator]()).toThrow('closed');
    await settled();
    expect(locks.events).toEqual(LOCKED_ONCE);
  });

  it('keeps the lock until the stream has ended, and gives the stream itself [D150]', async () => {
    const stream = new Readable({ read() {} });
    const result = await reports.make(stream);
    expect(result).toBe(stream);
    const content = text(result);
    stream.push('a');
    await settled();
    expect(locks.events).toEqual(['lock k']);
    stream.push(null);
    await expect(content).resolves.toBe('a');
    await settled();
    expect(locks.events).toEqual(LOCKED_ONCE);
  });

  it('keeps the lock for the stream of any thenable, such as a Promise of another library', async () => {
    class Exports {
      @Locked('k')
      make(stream: Readable): PromiseLike<Readable> {
        const promise = Promise.resolve(stream);
        return { then: (resolve, reject) => promise.then(resolve, reject) };
      }
    }
    const stream = await locks.give(new Exports()).make(Readable.from(['a', 'b']));
    await settled();
    expect(locks.events).toEqual(['lock k']);
    await expect(text(stream)).resolves.toBe('ab');
    await settled();
    expect(locks.events).toEqual(LOCKED_ONCE);
  });

  it('releases it when the stream is destroyed', async () => {
    const stream = await reports.make(new Readable({ read() {} }));
    stream.destroy();
    await settled();
    expect(locks.events).toEqual(LOCKED_ONCE);
  });

  it('keeps the lock for the stream in a StreamableFile', async () => {
    const stream = Readable.from(['a', 'b']);
    const file = await reports.make(new StreamableFile(stream));
    expect(file).toBeInstanceOf(StreamableFile);
    expect(locks.events).toEqual(['lock k']);
    await expect(text(file.getStream())).resolves.toBe('ab');
    await settled();
    expect(locks.events).toEqual(LOCKED_ONCE);
  });

  it('keeps the lock until the web stream has ended or is cancelled', async () => {
    const source = (): ReadableStream<string> => ReadableStream.from(['a', 'b']);
    const stream = await reports.make(source());
    expect(stream).toBeInstanceOf(ReadableStream);
    await settled();
    expect(locks.events).toEqual(['lock k']);
    await expect(text(stream)).resolves.toBe('ab');
    await settled();
    expect(locks.events).toEqual(LOCKED_ONCE);
    const cancelled = await reports.make(source());
    await cancelled.cancel();
    await settled();
    expect(isHeld()).toBe(false);
  });
});

it('withLock() and lock.run() wait for Promises only: what they return otherwise is read without the lock', async () => {
  const service = new TestLocks().service();
  const prices = new Subject();
  expect(await service.withLock('k', () => prices)).toBe(prices); // which goes on
  expect(await service.inspect('k')).toBeNull();
  const lock = await service.acquire('k');
  const pages = await lock.run(async function* () {
    await Promise.resolve();
    yield service.current('k');
  });
  expect(await pages.next()).toEqual({ done: false, value: undefined });
  await lock.release();
});

describe('a plain method without a known return type', () => {
  class Untyped {
    @Locked('k')
    give(result: unknown): ReturnType<typeof JSON.parse> {
      return result;
    }

    @Locked('k', { returns: 'promise' })
    giveInside(result: unknown): ReturnType<typeof JSON.parse> {
      return result;
    }
  }
  async function* numbers(): AsyncGenerator<number> {
    yield await Promise.resolve(1);
  }
  let untyped: Untyped;
  beforeEach(() => {
    untyped = locks.give(new Untyped());
  });

  it.each<[string, () => unknown, string]>([
    ['an Observable', () => of(1), "an Observable, which could not be seen .* 'observable'"],
    ['an async generator', numbers, "an async iterable, which could not be seen .* 'iterable'"],
    ['an async iterable', () => ({ [Symbol.asyncIterator]: numbers }), 'an async iterable'],
  ])('fails when it returns %s, and keeps no lock', async (_, make, message) => {
    const failure = expect(untyped.give(make())).rejects;
    await failure.toBeInstanceOf(LockConfigError);
    await failure.toThrow(new RegExp(message));
    expect(locks.events).toEqual(LOCKED_ONCE);
    const inside: unknown = await untyped.giveInside(make());
    expect(inside).toEqual(expect.anything());
    expect(isHeld()).toBe(true);
  });

  it.each<[string, () => unknown]>([
    ['a value', () => 5],
    ['nothing', () => undefined],
    ['a Promise', async () => Promise.resolve(5)],
    ['a list', () => [1, 2]],
    ['a stream', () => Readable.from(['a'])],
    ['a web stream', () => ReadableStream.from(['a'])],
    // Like the queries of some ORMs: awaited, they give their rows.
    [
      'a thenable iterable',
      () => ({ then: (tell: (n: number) => void) => tell(5), [Symbol.asyncIterator]: numbers }),
    ],
  ])('may return %s', async (_, make) => {
    await expect(untyped.give(make())).resolves.not.toBeInstanceOf(Error);
  });
});

describe('when somebody else has the lock', () => {
  let inside = 0;
  let substitute: unknown;
  const busy = { onBusy: () => substitute };

  class Shop {
    @Locked('k', busy)
    observable(): Observable<unknown> {
      inside += 1;
      return of('worked');
    }

    @Locked('k', busy)
    async *iterable() {
      inside += 1;
      yield Promise.resolve('worked');
    }

    @Locked('k', { onBusy: 'skip' })
    skippedObservable(): Observable<unknown> {
      inside += 1;
      return of('worked');
    }

    @Locked('k', { onBusy: 'skip' })
    async *skippedIterable() {
      inside += 1;
      yield Promise.resolve('worked');
    }
  }

  let shop: Shop;
  beforeEach(() => {
    inside = 0;
    const locks = new TestLocks({ waitMs: 0 });
    shop = withTestLocks(new Shop(), locks);
    locks.hold('k');
  });
  const observed = (source = shop.observable()) => lastValueFrom(source.pipe(toArray()));
  const iterated = async (source: AsyncIterable<unknown> = shop.iterable()) => {
    const values: unknown[] = [];
    for await (const value of source) values.push(value);
    return values;
  };
  async function* cached(): AsyncGenerator<unknown> {
    yield* [1, 2];
  }

  it.each<[string, () => unknown, unknown[]]>([
    ['a value', () => 'busy', ['busy']],
    ['a Promise', () => Promise.resolve('busy'), ['busy']],
    ['null', () => null, [null]],
    ['a list, which is one value', () => [1, 2], [[1, 2]]],
    ['undefined', () => undefined, []],
  ])('an Observable emits, and an iterable yields, %s of onBusy', async (_, make, values) => {
    substitute = make();
    expect(await observed()).toEqual(values);
    expect(await iterated()).toEqual(values);
    expect(inside).toBe(0);
  });

  it('the result of onBusy may be of the same kind', async () => {
    substitute = of(1, 2);
    expect(await observed()).toEqual([1, 2]);
    substitute = cached();
    expect(await iterated()).toEqual([1, 2]);
    substitute = throwError(() => new Error('no cache'));
    await expect(observed()).rejects.toThrow('no cache');
  });

  it('the result of onBusy is not subscribed to after the subscriber has left', async () => {
    let subscriptions = 0;
    substitute = defer(() => of(++subscriptions));
    shop.observable().subscribe().unsubscribe();
    await settled();
    expect(subscriptions).toBe(0);
  });

  it("'skip' emits nothing", async () => {
    expect(await observed(shop.skippedObservable())).toEqual([]);
    expect(await iterated(shop.skippedIterable())).toEqual([]);
    expect(inside).toBe(0);
  });
});
