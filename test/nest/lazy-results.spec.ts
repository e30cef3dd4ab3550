import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Locked, type LockService } from 'nestjs-locked';
import { TestLocks, withTestLocks } from 'nestjs-locked/testing';
import { lazy } from '../support/lazy.js';

type Ask = () => Promise<string>;

/** Whether a nested call joins the outer one: if not, it waits for its whole time. */
const asking =
  (locks: LockService): Ask =>
  () =>
    locks.withLock('key', { waitMs: 100 }, () => 'joined').catch((error: Error) => error.message);

describe('work that begins only when it is awaited', () => {
  it('runs under the lock: the result of withLock() and of lock.run()', async () => {
    const locks = new TestLocks().service();
    const ask = asking(locks);
    expect(await locks.withLock('key', () => lazy(ask))).toBe('joined');
    const lock = await locks.acquire('key');
    expect(await lock.run(() => lazy(ask))).toBe('joined');
    await lock.release();
  });
});

describe('work that begins only when it is iterated', () => {
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
      return lazy(async () => {
        const answer = await this.ask();
        return paged(async () => answer);
      }) as never;
    }

    @Locked('key')
    async promised(): Promise<AsyncIterable<string>> {
      return paged(this.ask);
    }
  }

  it.each<[string, (pages: Pages) => AsyncIterable<string> | Promise<AsyncIterable<string>>]>([
    ['an iterable', (pages) => pages.iterable()],
    ['a lazy iterable', (pages) => pages.lazyIterable()],
    ['a Promise of one', (pages) => pages.promised()],
  ])('runs under the lock: %s', async (_, read) => {
    const locks = new TestLocks();
    const pages = withTestLocks(new Pages(), locks);
    pages.ask = asking(locks.service());
    const values: string[] = [];
    for await (const value of await read(pages)) values.push(value);
    expect(values).toEqual(['joined']);
  });
});
