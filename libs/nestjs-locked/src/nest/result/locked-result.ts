import { EMPTY, isObservable, Observable, type ObservableInput, of } from 'rxjs';
import { LockConfigError } from '../../core/lock.errors.js';
import { startedHere } from '../../core/started-here.js';
import { isAsyncIterable } from './async-iterable.js';
import { answersEveryName } from './auto-mock.js';
import type { LockedCall } from './locked-call.js';
import { lockedIterable } from './locked-iterable.js';
import { ManualHold } from './manual-hold.js';
import { relayObservable } from './relay-observable.js';
import type { MethodKind } from './result-kind.js';
import { isStream, streamedResult } from './streamed-result.js';

/**
 * How each kind of method runs under its lock and returns a result of the same kind. A Promise takes the lock at once,
 * an Observable with each subscription, and an iterable when the first value is requested. An Observable or iterable
 * that nobody reads takes none.
 */
export const LOCKED_RESULT: Record<MethodKind, (call: LockedCall) => unknown> = {
  promise: lockedPromise,
  undeclared: lockedUndeclared,
  observable: lockedObservable,
  iterable: lockedIterable,
};

/**
 * Takes the lock now. It is released when the Promise settles or, if its value is a stream, when the stream has ended.
 *
 * A stream must reach the caller while the lock is held, which takes two Promises: the caller's settles with the
 * stream, and that of the work inside `enter` stays pending until the stream has ended and the lock can be released.
 */
function lockedPromise({ enter, run, callSite, whenTooLateToRead }: LockedCall): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const carried = (result: unknown): unknown => {
      const carry = streamedResult(result, callSite);
      if (carry === undefined) return result;
      return new Promise<void>((leave, fail) => {
        resolve(carry(new ManualHold(leave, fail, () => released, whenTooLateToRead)));
      });
    };
    // No async function: every Promise counts here.
    const released = enter(() => {
      const result = startedHere(run());
      return result instanceof Promise ? result.then(carried) : carried(result);
    });
    released.then(resolve, reject);
  });
}

/**
 * The same, but refuses an Observable or async iterable that was not declared: the caller would get a Promise instead,
 * and the lock would stay held, because nobody reads its value.
 */
function lockedUndeclared({ enter, run, callSite }: LockedCall): Promise<unknown> {
  const checked = (): unknown => {
    const result = run();
    const kind = unexpectedKind(result);
    if (kind === undefined) return result;
    throw new LockConfigError(
      `Cannot lock ${callSite}: it returned an ${kind}, which could not be seen while its class was being defined; set returns: '${kind === 'Observable' ? 'observable' : 'iterable'}' in the options of @Locked, or 'promise' if the caller expects a Promise of it`,
    );
  };
  return lockedPromise({ enter, run: checked, callSite });
}

/**
 * Streams are exempt: they are iterable too, but rarely iterated, and callers that get one in a Promise know how to
 * read it.
 */
function unexpectedKind(result: unknown): 'Observable' | 'async iterable' | undefined {
  try {
    if (Object(result) === result && answersEveryName(result as object)) return undefined;
    if (isObservable(result)) return 'Observable';
    if (!isAsyncIterable(result) || 'then' in result) return undefined;
    return isStream(result) ? undefined : 'async iterable';
  } catch {
    return undefined; // its members cannot be read, so nobody reads it as a stream
  }
}

/**
 * Every subscription takes the lock, runs the method, and releases the lock when it ends. Unsubscribing also ends the
 * wait for the lock; the method does not run for a subscriber that has left.
 *
 * A result of `onBusy` is emitted instead: an Observable as it is, undefined as nothing, and any other value as the
 * only one. `enter` resolves the same way in both cases, so `hasRun` distinguishes them.
 */
function lockedObservable({ enter, run, staysUntilFirstValue }: LockedCall): Observable<unknown> {
  return new Observable((subscriber) => {
    const left = new AbortController();
    subscriber.add(() => left.abort());
    let hasRun = false;
    const relay = async (source: () => unknown, stays?: boolean): Promise<void> => {
      if (subscriber.closed) return;
      await relayObservable(source() as ObservableInput<unknown>, subscriber, stays);
    };
    const work = (): Promise<void> => {
      hasRun = true;
      return relay(run, staysUntilFirstValue);
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
