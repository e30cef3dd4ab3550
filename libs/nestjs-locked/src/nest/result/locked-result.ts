import { EMPTY, isObservable, Observable, type ObservableInput, of } from 'rxjs';
import { LockConfigError } from '../../core/lock.errors.js';
import { heldIterator } from './held-iterator.js';
import { type Enter, ManualHold, openManualHold } from './manual-hold.js';
import { relayObservable } from './relay-observable.js';
import type { ResultKind } from './result-kind.js';
import { isAsyncIterable, streamedResult } from './streamed-result.js';

/** One call of a locked method. */
export interface LockedCall {
  /** What messages call the method. */
  readonly label: string;
  readonly enter: Enter;
  /** Runs the method itself. */
  readonly run: () => unknown;
}

/**
 * How each kind of method runs under its lock and gives its caller a result of the same kind. The kinds differ in when
 * the lock is taken: a Promise takes it at once, an Observable with each subscription, and an iterable when the first
 * value is asked for. An Observable or iterable that nobody reads takes none.
 */
export const LOCKED_RESULT: Record<ResultKind, (call: LockedCall) => unknown> = {
  promise: lockedPromise,
  observable: lockedObservable,
  iterable: lockedIterable,
};

/**
 * The lock is taken now. It is released when the Promise settles or, if it gives a stream, when the stream has ended.
 *
 * A stream must reach the caller while the lock is still held. So two Promises are needed: the one that the caller has
 * settles with the stream, while the one of the work inside `enter` stays pending until the stream has ended. Only then
 * is the lock released.
 */
function lockedPromise({ enter, run, label }: LockedCall): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const released = enter(async () => {
      const result = await run();
      const carry = streamedResult(result, label);
      if (carry === undefined) return result;
      await new Promise<void>((leave, fail) => {
        resolve(carry(new ManualHold(leave, fail, () => released)));
      });
      return undefined;
    });
    released.then(resolve, reject);
  });
}

/**
 * Every subscription takes the lock, runs the method, and releases the lock when it ends. Unsubscribing also ends the
 * wait for the lock, and the method is not run for a subscriber that has left in the meantime.
 *
 * If `onBusy` gave a result instead, that is emitted: an Observable as it is, undefined as nothing, and any other value
 * as the only one. `enter` resolves in the same way in both cases, so `hasRun` tells them apart.
 */
function lockedObservable({ enter, run }: LockedCall): Observable<unknown> {
  return new Observable((subscriber) => {
    const left = new AbortController();
    subscriber.add(() => left.abort());
    let hasRun = false;
    const relay = async (source: () => unknown): Promise<void> => {
      if (subscriber.closed) return;
      await relayObservable(source() as ObservableInput<unknown>, subscriber);
    };
    const work = (): Promise<void> => {
      hasRun = true;
      return relay(run);
    };
    enter(work, left.signal)
      .then((instead) => (hasRun ? undefined : relay(() => asObservable(instead))))
      .then(
        () => subscriber.complete(),
        (error: unknown) => subscriber.error(error),
      );
  });
}

function asObservable(instead: unknown): Observable<unknown> {
  if (isObservable(instead)) return instead;
  return instead === undefined ? EMPTY : of(instead);
}

/**
 * The lock is taken and the method is run when the first value is asked for. If `onBusy` gave a result instead, that is
 * yielded: an async iterable as it is, undefined as nothing, and any other value as the only one.
 */
async function* lockedIterable({ enter, run, label }: LockedCall): AsyncGenerator<unknown> {
  const hold = await openManualHold(enter);
  if ('instead' in hold) {
    const { instead } = hold;
    if (isAsyncIterable(instead)) yield* instead;
    else if (instead !== undefined) yield instead;
    return undefined;
  }
  let source: unknown;
  try {
    source = await hold.run(run);
    if (!isAsyncIterable(source)) {
      throw new LockConfigError(
        `Cannot iterate the result of ${label}: it is not an async iterable; leave out returns: 'iterable'`,
      );
    }
  } catch (error) {
    await hold.end({ error });
    throw error;
  }
  return yield* heldIterator(source[Symbol.asyncIterator](), hold);
}
