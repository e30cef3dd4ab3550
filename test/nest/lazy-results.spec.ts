import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Locked, type LockService } from 'nestjs-locked';
import { TestLocks, withTestLocks } from 'nestjs-locked/testing';

type Ask = () => Promise<string>;

/** Begins when it is awaited, as a query of Knex, Mongoose or Prisma does. */
const lazy = (ask: Ask): Promise<string> =>
  ({
    then: (...callbacks: Parameters<Promise<string>['then']>) => ask().then(...callbacks),
  }) as never;

/** Whether a call inside joins the one around it: if it does not, it waits for it in vain. */
const asking =
  (locks: LockService): Ask =>
  () =>
    locks.withLock('key', { waitMs: 100 }, () => 'joined').catch((error: Error) => error.message);

describe('what begins only when it is awaited', () => {
  it('runs under the lock: the result of withLock() and of lock.run()', async () => {
    const locks = new TestLocks().service();
    const ask = asking(locks);
    expect(await locks.withLock('key', () => lazy(ask))).toBe('joined');
    const lock = await locks.acquire('key');
    expect(await lock.run(() => lazy(ask))).toBe('joined');
    await lock.release();
  });
});

describe('what begins only when it is iterated', () => {
  /** Asks for its first page at once, as a cursor may do. */
  const paged = (ask: Ask): AsyncIterable<string> => ({
    [Symbol.asyncIterator]: () => {
      const page = ask();
      let isRead = false;
      return {
        next: async () => {
          if (isRead) return { done: true, value: undefined };
          isRead = true;
          return { done: false, value: await page };
        },
      };
    },
  });

  @Injectable()
  class Pages {
    ask!: Ask;

    @Locked('key', { returns: 'iterable' })
    iterable(): AsyncIterable<string> {
      return paged(this.ask);
    }

    @Locked('key', { returns: 'iterable' })
    lazyIterable(): AsyncIterable<string> {
      const { ask } = this;
      const found: Promise<unknown> = lazy(async () => ((await ask()) === 'joined' ? 'yes' : 'no'));
      return {
        then: (...callbacks: Parameters<Promise<unknown>['then']>) =>
          found.then((answer) => paged(async () => `${String(answer)}`)).then(...callbacks),
      } as never;
    }

    @Locked('key')
    async promised(): Promise<AsyncIterable<string>> {
      return paged(this.ask);
    }
  }

  it.each<
    [string, (pages: Pages) => AsyncIterable<string> | Promise<AsyncIterable<string>>, string]
  >([
    ['an iterable', (pages) => pages.iterable(), 'joined'],
    ['a lazy iterable', (pages) => pages.lazyIterable(), 'yes'],
    ['a Promise of one', (pages) => pages.promised(), 'joined'],
  ])('runs under the lock: %s', async (_, read, expected) => {
    const locks = new TestLocks();
    const pages = withTestLocks(new Pages(), locks);
    pages.ask = asking(locks.service());
    const values: string[] = [];
    for await (const value of await read(pages)) values.push(value);
    expect(values).toEqual([expected]);
  });
});
