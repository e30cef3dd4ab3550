/** Results that continue, when somebody leaves them, one of several readers fails, or only their reading ends. */
import { expect, it } from '@jest/globals';
import { EMPTY, NEVER, Observable, Subject, takeUntil, throwError } from 'rxjs';
import { AsyncLocalStorage } from 'node:async_hooks';
import { Duplex, Readable } from 'node:stream';
import { setImmediate as immediate } from 'node:timers/promises';
import { LockConfigError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { Locked } from '../../libs/nestjs-locked/src/nest/decorator/locked.decorator.js';
import { heldIterator } from '../../libs/nestjs-locked/src/nest/result/held-iterator.js';
import { relayObservable } from '../../libs/nestjs-locked/src/nest/result/relay-observable.js';
import { makeGate } from '../support/gate.js';
import { RecordingLocks } from './recording-locks.js';

const taker = new AsyncLocalStorage<string>();

class Reports {
  @Locked('k')
  async make<T>(result: T): Promise<T> {
    return Promise.resolve(result);
  }

  @Locked('k', { returns: 'observable' })
  watch<T>(make: () => Observable<T>): Observable<T> {
    return make();
  }
}

function start() {
  const locks = new RecordingLocks();
  return { locks, reports: locks.give(new Reports()) };
}

const settled = async (): Promise<void> => {
  for (let turn = 0; turn < 10; turn += 1) await immediate();
};

it('an Observable of which only the first value is taken is unsubscribed with that value', async () => {
  const source = new Subject<number>();
  let relayed: Promise<void> | undefined;
  const values = new Observable((subscriber) => {
    relayed = relayObservable(source, subscriber, true);
  });
  values.subscribe().unsubscribe();
  expect(source.observed).toBe(true);
  source.next(1);
  expect(source.observed).toBe(false);
  await relayed;
});

it('an Observable whose subscriber has left while it was created is not subscribed to', async () => {
  const { locks, reports } = start();
  const source = new Subject<number>();
  const mayStop = new Subject<void>();
  reports
    .watch(() => {
      mayStop.next();
      return source;
    })
    .pipe(takeUntil(mayStop))
    .subscribe();
  await settled();
  expect(source.observed).toBe(false);
  expect(locks.events).toEqual(['lock k', 'unlock k']);
});

it('one subscription that fails leaves the lock to the other', async () => {
  const { locks, reports } = start();
  const sources = [throwError(() => new Error('on purpose')), NEVER];
  const values = await reports.make(
    new Observable((subscriber) => (sources.shift() ?? EMPTY).subscribe(subscriber)),
  );
  const seen: unknown[] = [];
  values.subscribe({ error: (error) => seen.push(error) });
  const other = values.subscribe();
  await settled();
  expect(seen).toMatchObject([{ message: 'on purpose' }]);
  expect(locks.events).toEqual(['lock k']);
  other.unsubscribe();
  await settled();
  expect(locks.events).toEqual(['lock k', 'unlock k']);
});

it('a stream cleans up inside its hold, whoever destroys it', async () => {
  const { locks, reports } = start();
  const seen: unknown[] = [];
  const source = new Readable({
    read() {},
    destroy(error, callback) {
      seen.push(taker.getStore());
      callback(error);
    },
  });
  const stream = await taker.run('taker', () => reports.make(source));
  stream.destroy();
  await settled();
  expect(seen).toEqual(['taker']);
  expect(locks.events).toEqual(['lock k', 'unlock k']);
});

it('a stream that has been read releases the lock although it may still be written to', async () => {
  const { locks, reports } = start();
  const source = new Duplex({
    read() {
      this.push(null);
    },
    write: (_chunk, _encoding, callback) => callback(),
  });
  const stream = await reports.make(source);
  stream.resume();
  await settled();
  expect(stream.writable).toBe(true);
  expect(locks.events).toEqual(['lock k', 'unlock k']);
});

/** Readers of one iteration, and the end of its request. */
function startReaders(seen: unknown[]) {
  let leave = (_unread: () => LockConfigError): void => {};
  return {
    endRequest: () => leave(() => new LockConfigError('its request has ended')),
    readers: {
      run: <R>(move: () => R): R => taker.run('taker', move),
      begin: () => {},
      end: async () => Promise.resolve(void seen.push('end')),
      whenTooLateToRead: (whenTooLate: typeof leave) => void (leave = whenTooLate),
    },
  };
}

it('an iteration that nobody begins is closed inside its hold', async () => {
  const seen: unknown[] = [];
  const { readers, endRequest } = startReaders(seen);
  heldIterator(
    () => ({
      next: () => Promise.resolve({ done: true, value: undefined }),
      return: () => {
        seen.push(taker.getStore());
        return Promise.resolve({ done: true, value: undefined });
      },
    }),
    readers,
  );
  endRequest();
  await settled();
  expect(seen).toEqual(['taker', 'end']);
});

it('an iteration that was closed before its first value is not closed again when its request ends', async () => {
  const seen: unknown[] = [];
  const { readers, endRequest } = startReaders(seen);
  const mayClose = makeGate();
  const iteration = heldIterator(
    () => ({
      next: () => Promise.resolve({ done: true, value: undefined }),
      return: async () => {
        if (seen.push('return') === 1) await mayClose.opened;
        return { done: true, value: undefined };
      },
    }),
    readers,
  );
  const left = iteration.return(undefined);
  endRequest();
  await settled();
  expect(seen).toEqual(['return']);
  mayClose.open();
  await left;
  expect(seen).toEqual(['return', 'end']);
});
