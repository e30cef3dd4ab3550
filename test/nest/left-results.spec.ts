/** Handlers under a LockInterceptor for whose result an outer interceptor does not wait. */
import { beforeEach, describe, expect, it } from '@jest/globals';
import {
  type CallHandler,
  Controller,
  type ExecutionContext,
  Get,
  type Type,
  UseInterceptors,
} from '@nestjs/common';
import { MessagePattern } from '@nestjs/microservices';
import { LockInterceptor } from 'nestjs-locked';
import { LockTestingModule, TestLocks } from 'nestjs-locked/testing';
import {
  defaultIfEmpty,
  finalize,
  forkJoin,
  interval,
  lastValueFrom,
  merge,
  type Observable,
  of,
  race,
  Subject,
  take,
  takeUntil,
  throwError,
} from 'rxjs';
import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../support/eventually.js';
import { type Gate, makeGate } from '../support/gate.js';
import { startHttp } from '../support/nest-app.js';
import { connectTcp } from '../support/tcp-client.js';

/** What happens in the handlers of one test, in order. */
let events: string[];
let mayEnd: Gate;

beforeEach(() => {
  events = [];
  mayEnd = makeGate();
});

const tenants = new AsyncLocalStorage<string>();
const timeIsUp = new Subject<void>();

function around(change: (handled: () => Observable<unknown>) => Observable<unknown>): Type {
  return class Around {
    intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
      return change(() => next.handle());
    }
  };
}

const Locks = LockInterceptor('stock', { waitMs: 30_000 });

@Controller()
class StockController {
  @Get('race')
  @UseInterceptors(around((handled) => race(handled(), of('cached'))), Locks)
  raced(): string {
    return this.#work();
  }

  @Get('merge')
  @UseInterceptors(around((handled) => merge(handled(), of('cached')).pipe(take(1))), Locks)
  merged(): string {
    return this.#work();
  }

  @Get('join')
  @UseInterceptors(
    around((handled) => forkJoin([handled(), throwError(() => new Error('no user'))])),
    Locks,
  )
  joined(): string {
    return this.#work();
  }

  @Get('slow')
  @UseInterceptors(
    around((handled) => handled().pipe(takeUntil(timeIsUp), defaultIfEmpty('too late'))),
    Locks,
  )
  async slow(): Promise<string> {
    events.push('in');
    await mayEnd.opened;
    events.push('out');
    return 'done';
  }

  @Get('told')
  @UseInterceptors(
    around((handled) => handled().pipe(takeUntil(timeIsUp), defaultIfEmpty('too late'))),
    Locks,
    around((handled) => {
      timeIsUp.next();
      return handled();
    }),
  )
  told(): Observable<number> {
    return interval(1).pipe(finalize(() => events.push('left')));
  }

  @Get('tenant')
  @MessagePattern('tenant')
  @UseInterceptors(around((handled) => tenants.run('42', handled)), Locks)
  tenant(): string {
    return tenants.getStore() ?? 'nobody';
  }

  #work(): string {
    events.push('in');
    return 'done';
  }
}

async function startShop() {
  const locks = new TestLocks();
  const { app, url } = await startHttp({
    imports: [LockTestingModule.forRoot({ locks })],
    controllers: [StockController],
  });
  const get = async (path: string) => (await fetch(`${url}/${path}`)).text();
  return { app, locks, get };
}

describe('an outer interceptor that unsubscribes at once', () => {
  it.each([
    ['answers from a cache', 'race', 'cached'],
    ['takes the first value of several', 'merge', 'cached'],
    ['fails', 'join', '{"statusCode":500,"message":"Internal server error"}'],
  ])('and %s requests no lock, and runs no handler', async (_, path, answer) => {
    const { locks, get } = await startShop();
    const other = locks.hold('stock');
    expect(await get(path)).toBe(answer);
    expect(locks.calls).toEqual([]);
    other.release();
    await sleep(20);
    expect(events).toEqual([]);
  });
});

it('a timeout around an HTTP handler ends the wait for the lock', async () => {
  const { locks, get } = await startShop();
  const other = locks.hold('stock');
  const answer = get('slow');
  await locks.untilWaiting('stock');
  timeIsUp.next();
  expect(await answer).toBe('too late');
  await eventually(() => expect(locks.calls).toMatchObject([{ outcome: 'aborted' }]));
  other.release();
  await sleep(20);
  expect(events).toEqual([]);
});

it('an HTTP handler keeps its lock after a timeout around it', async () => {
  const { locks, get } = await startShop();
  const first = get('slow');
  await locks.untilHeld('stock');
  timeIsUp.next();
  expect(await first).toBe('too late');
  const second = get('slow');
  await locks.untilWaiting('stock');
  await sleep(20);
  expect(events).toEqual(['in']);
  mayEnd.open();
  expect(await second).toBe('done');
  expect(events).toEqual(['in', 'out', 'in', 'out']);
});

it("a handler's Observable is unsubscribed if an inner interceptor has made an outer one unsubscribe", async () => {
  const { locks, get } = await startShop();
  expect(await get('told')).toBe('too late');
  await eventually(() => expect(locks.calls).toMatchObject([{ outcome: 'released' }]));
  expect(events).toEqual(['left']);
});

describe('a handler has the async context of the outer interceptors', () => {
  it('over HTTP', async () => {
    const { get } = await startShop();
    expect(await get('tenant')).toBe('42');
  });

  it('for messages', async () => {
    const { app } = await startShop();
    const client = await connectTcp(app);
    expect(await lastValueFrom(client.send('tenant', {}))).toBe('42');
  });
});
