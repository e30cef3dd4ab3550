import type { Failure } from './manual-hold.js';
import type { ResultReaders } from './result-readers.js';

type Result = IteratorResult<unknown, unknown>;

/** The part of `ResultReaders` that an iteration uses. */
interface Readers extends Pick<ResultReaders, 'begin' | 'end' | 'whenTooLateToRead'> {
  readonly run: <R>(move: () => R) => R;
}

/**
 * Forwards an iteration, which counts as a reader until it is done, fails, or is left by its reader (`break`,
 * `return()`, `throw()`), even while a value is awaited. It does not end while the source is still working on a value,
 * unless the source has a `return()` and it was called, nor before that call has finished. The call that ends the last
 * reader is answered after the lock was released.
 * @throws LockConfigError if the lock has already been released
 */
export function heldIterator(
  open: () => AsyncIterator<unknown, unknown, unknown>,
  readers: Readers,
): AsyncGenerator<unknown, unknown, unknown> {
  readers.begin();
  let ended: Promise<void> | undefined;
  let unread: (() => Error) | undefined; // once it is too late to read
  const end = async (failure?: Failure): Promise<void> => {
    if (ended !== undefined) {
      await ended.catch(() => {}); // reported by the call that ended it
      return;
    }
    ended = readers.end(failure, unread !== undefined);
    await ended;
  };
  const source = opened(() => readers.run(open), end);
  let hasBegun = false;
  let awaited = 0; // pending `next()` calls of the source
  let leaving = 0; // pending `return()` and `throw()` calls; values may settle before them
  let isDone = false;
  let isLeft = false;
  let failure: Failure | undefined;
  const next = async (value: [] | [unknown]): Promise<Result> => {
    if (unread) throw unread(); // completing would look as if nothing had been missed
    if (isDone) return { done: true, value: undefined };
    hasBegun = true;
    isLeft = false;
    if (ended !== undefined) {
      readers.begin(); // it was left, and continues
      ended = undefined;
    }
    awaited += 1;
    try {
      const result = await readers.run(() => source.next(...value));
      isDone ||= result.done === true;
      return result;
    } catch (error) {
      isDone = true; // like an async generator
      failure ??= { error };
      throw error;
    } finally {
      awaited -= 1;
      if (isOver()) await end(failure);
    }
  };
  const isOver = (): boolean => {
    if (leaving > 0) return false;
    return awaited === 0 ? isDone || isLeft : isLeft && source.return !== undefined;
  };
  const leaveUnread = async (): Promise<void> => {
    try {
      await readers.run(() => source.return?.());
    } finally {
      await end();
    }
  };
  readers.whenTooLateToRead((error) => {
    if (hasBegun) return;
    unread = error;
    leaveUnread().catch(() => {}); // there is no caller to report it to
  });
  const leave = async (move: () => Promise<Result>): Promise<Result> => {
    hasBegun = true;
    leaving += 1;
    try {
      const result = await readers.run(move);
      isLeft ||= result.done === true;
      return result;
    } catch (error) {
      isDone = true;
      isLeft = true;
      failure ??= { error };
      throw error;
    } finally {
      leaving -= 1;
      if (isOver()) await end(failure);
    }
  };
  return {
    next: (...value) => next(value),
    return: (value) =>
      leave(async () => {
        const result = await source.return?.(value);
        isDone ||= result?.done === true;
        return result ?? { done: true, value: await value };
      }),
    throw: (error: unknown) =>
      leave(async () => {
        if (source.throw !== undefined) {
          const result = (await source.throw(error)) as Result | undefined; // `on` of node:events returns none
          isDone ||= result?.done !== false;
          return result ?? { done: true, value: undefined };
        }
        await source.return?.();
        throw error;
      }),
    [Symbol.asyncIterator]() {
      return this;
    },
    async [Symbol.asyncDispose]() {
      await this.return(undefined);
    },
  };
}

function opened<Source>(open: () => Source, end: (failure: Failure) => Promise<void>): Source {
  try {
    return open();
  } catch (error) {
    void end({ error }); // never rejects: the caller gets this failure
    throw error;
  }
}
