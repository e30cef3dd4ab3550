import { EMPTY, isObservable, Observable, type ObservableInput, of } from 'rxjs';
import { LockConfigError } from '../../core/lock.errors.js';
import type { LockedCall } from './locked-call.js';
import { lockedIterable } from './locked-iterable.js';
import { ManualHold } from './manual-hold.js';
import { relayObservable } from './relay-observable.js';
import type { MethodKind } from './result-kind.js';
import { answersEveryName, isAsyncIterable, isStream, streamedResult } from './streamed-result.js';

/**
 * How each kind of method runs under its lock and gives its caller a result of the same kind. The kinds differ in when
 * the lock is taken: a Promise takes it at once, an Observable with each subscription, and an iterable when the first
 * value is requested. An Observable or iterable that nobody reads takes none.
 */
export const LOCKED_RESULT: Record<MethodKind, (call: LockedCall) => unknown> = {
  promise: lockedPromise,
  undeclared: lockedUndeclared,
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
function lockedPromise({ enter, run, callSite, whenTooLateToRead }: LockedCall): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const released = enter(async () => {
      const result = await run();
      const carry = streamedResult(result, callSite);
      if (carry === undefined) return result;
      await new Promise<void>((leave, fail) => {
        resolve(carry(new ManualHold(leave, fail, () => released, whenTooLateToRead)));
      });
      return undefined;
    });
    released.then(resolve, reject);
  });
}

/**
 * The same, unless the method hands out an Observable or an async iterable where nothing told us so beforehand: its
 * caller would get a Promise in the place of it, and the lock would stay taken, because nobody reads what is inside.
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

/** A stream is iterable, too, but is rarely iterated, and those who get it inside a Promise know how to read it. */
function unexpectedKind(result: unknown): 'Observable' | 'async iterable' | undefined {
  try {
    if (Object(result) === result && answersEveryName(result as object)) return undefined;
    if (isObservable(result)) return 'Observable';
    if (!isAsyncIterable(result) || 'then' in result) return undefined;
    return isStream(result) ? undefined : 'async iterable';
  } catch {
    return undefined; // members that cannot be read are nobody's stream
  }
}

/**
 * Every subscription takes the lock, runs the method, and releases the lock when it ends. Unsubscribing also ends the
 * wait for the lock, and the method is not run for a subscriber that has left in the meantime.
 *
 * If `onBusy` gave a result instead, that is emitted: an Observable as it is, undefined as nothing, and any other value
 * as the only one. `enter` resolves in the same way in both cases, so `hasRun` tells them apart.
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
