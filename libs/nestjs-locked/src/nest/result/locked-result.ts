import { EMPTY, isObservable, type ObservableInput, Observable, of } from 'rxjs';
import { LockConfigError } from '../../core/lock.errors.js';
import { streamedResult, isAsyncIterable } from './streamed-result.js';
import { heldIterator } from './held-iterator.js';
import { type Enter, openManualHold, ManualHold } from './manual-hold.js';
import { relayObservable } from './relay-observable.js';
import type { ResultKind } from './result-kind.js';

/** One call of a locked method. */
export interface LockedCall {
  /** How messages call the method. */
  readonly label: string;
  readonly enter: Enter;
  /** Runs the method itself. */
  readonly run: () => unknown;
}

/** Makes a call under its lock, and a result of the kind that the caller expects. */
export const LOCKED_RESULT: Record<ResultKind, (call: LockedCall) => unknown> = {
  promise: lockedPromise,
  observable: lockedObservable,
  iterable: lockedIterable,
};

/** The lock is taken now and given back when the Promise settles, or when what it brings has ended. */
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
 * Every subscription takes the lock, runs the method, and gives the lock back when it ends. What `onBusy` gave instead
 * is emitted: an Observable as it is, any other value as the only one, undefined as none.
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
 * The lock is taken, and the method run, when the first value is asked for. What `onBusy` gave instead is yielded: an
 * async iterable as it is, any other value as the only one, undefined as none.
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
