/** Event streams under a lock, read by the EventSource of Chromium, which reconnects by itself or never. */
import { describe, expect, it } from '@jest/globals';
import {
  Controller,
  Get,
  Header,
  Injectable,
  type MessageEvent,
  Sse,
  UseInterceptors,
} from '@nestjs/common';
import { APP_FILTER } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { Locked, LockExceptionFilter, LockInterceptor } from 'nestjs-locked';
import { LockTestingModule, TestLocks } from 'nestjs-locked/testing';
import { NEVER, type Observable, of, startWith } from 'rxjs';
import { describeWithChromium } from '../support/describe-if.js';
import { eventually } from '../support/eventually.js';
import { startHttp } from '../support/nest-app.js';
import { useChromium } from '../support/own-chromium.js';

@Injectable()
class Stock {
  @Locked('stock', { waitMs: 0 })
  async take(): Promise<string> {
    return 'sold';
  }
}

@Controller()
class StockController {
  constructor(private readonly stock: Stock) {}

  @Get()
  @Header('Content-Type', 'text/html')
  page(): string {
    return '<!doctype html><title>Stock</title>';
  }

  @Sse('tried')
  @UseInterceptors(LockInterceptor('stock', { waitMs: 0 }))
  tried(): Observable<MessageEvent> {
    return this.open();
  }

  @Sse('waited')
  @UseInterceptors(LockInterceptor('stock', { waitMs: 100 }))
  waited(): Observable<MessageEvent> {
    return this.open();
  }

  @Sse('locked')
  @Locked('stock', { waitMs: 0 })
  async locked(): Promise<Observable<MessageEvent>> {
    return this.open();
  }

  @Sse('observable')
  @Locked('stock', { waitMs: 100, returns: 'observable' })
  observable(): Observable<MessageEvent> {
    return this.open();
  }

  @Sse('service')
  async service(): Promise<Observable<MessageEvent>> {
    return of({ data: await this.stock.take() });
  }

  @Sse('wrong')
  @UseInterceptors(LockInterceptor('stock:<query.shop>', { waitMs: 0 }))
  wrong(): Observable<MessageEvent> {
    return this.open();
  }

  open(): Observable<MessageEvent> {
    return NEVER.pipe(startWith({ data: 'sold' }));
  }
}

describeWithChromium('the EventSource of Chromium', () => {
  const browser = useChromium();

  describe.each([
    ['Express', undefined],
    ['Fastify', (): FastifyAdapter => new FastifyAdapter()],
  ])('on %s', (_, adapter) => {
    /** Opens the stream in a page. @returns what the page has seen so far */
    async function open(path: string, locks = new TestLocks(), beforeOpening = () => {}) {
      const { url } = await startHttp(
        {
          imports: [LockTestingModule.forRoot({ locks })],
          controllers: [StockController],
          providers: [Stock, { provide: APP_FILTER, useClass: LockExceptionFilter }],
        },
        undefined,
        adapter?.(),
      );
      const page = await browser.newPage();
      await page.goto(url);
      beforeOpening();
      await page.evaluate(
        `globalThis.seen = [];
         globalThis.source = new EventSource('/${path}');
         source.onmessage = ({ data }) => seen.push(data);
         source.onerror = ({ data }) => seen.push(data ?? ['connecting', 'open', 'closed'][source.readyState]);`,
      );
      const seen = async (): Promise<unknown[]> => page.evaluate<unknown[]>('globalThis.seen');
      return { locks, page, seen };
    }

    const AWAY =
      '{"code":"LOCK_STORE_FAILED","message":"Locks are unavailable, try again","retryAfterMs":1000}';
    const LOST = '{"code":"LOCK_LOST","message":"Internal Server Error"}';
    const BUSY = '{"code":"LOCK_NOT_ACQUIRED","message":"In use, try again","retryAfterMs":1000}';

    it.each(['tried', 'waited', 'locked', 'service'])(
      'is told that the lock is busy, and reconnects by itself: %s',
      async (path) => {
        const busy = new TestLocks();
        const other = busy.hold('stock');
        const { page, seen } = await open(path, busy);
        await eventually(async () =>
          expect((await seen()).slice(0, 2)).toEqual([BUSY, 'connecting']),
        );
        other.release();
        await eventually(async () => expect(await seen()).toContain('sold'));
        expect(await seen()).not.toContain('closed');
        await page.close();
      },
    );

    it('reconnects by itself also where only Nest can answer: an Observable with a lock of its own', async () => {
      const busy = new TestLocks();
      const other = busy.hold('stock');
      const { page, seen } = await open('observable', busy);
      await eventually(async () => expect((await seen())[1]).toBe('connecting'));
      other.release();
      await eventually(async () => expect(await seen()).toContain('sold'));
      expect(await seen()).not.toContain('closed');
      await page.close();
    });

    it.each(['tried', 'locked', 'service'])(
      'is told that Redis does not answer, and reconnects by itself: %s',
      async (path) => {
        const locks = new TestLocks();
        const { page, seen } = await open(path, locks, () => locks.storeDown());
        await eventually(async () =>
          expect((await seen()).slice(0, 2)).toEqual([AWAY, 'connecting']),
        );
        locks.storeUp();
        await eventually(async () => expect(await seen()).toContain('sold'));
        await page.close();
      },
    );

    it('is told that the lock was lost, and gets it again', async () => {
      const { locks, page, seen } = await open('tried');
      await eventually(async () => expect(await seen()).toEqual(['sold']));
      await locks.lose('stock');
      await eventually(async () =>
        expect(await seen()).toEqual(['sold', LOST, 'connecting', 'sold']),
      );
      expect(locks.calls).toMatchObject([{ outcome: 'lost' }, { outcome: 'held' }]);
      await page.close();
    });

    it('does not reconnect if the key is wrong', async () => {
      const { page, seen } = await open('wrong');
      await eventually(async () => expect(await seen()).toEqual(['closed']));
      await page.close();
    });
  });
});
