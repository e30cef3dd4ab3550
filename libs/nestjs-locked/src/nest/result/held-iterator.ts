import type { Failure } from './manual-hold.js';
import type { ResultReaders } from './result-readers.js';

type Result = IteratorResult<unknown, unknown>;

/**
 * Passes an iteration on, which counts as a reader until it ends: when it is done, has failed, or is left by its reader
 * (`break`, `return()`, `throw()`). The last result of the last reader arrives after the lock was released.
 * @throws LockConfigError if the lock was released before
 */
export function heldIterator(
  open: () => AsyncIterator<unknown, unknown, unknown>,
  readers: ResultReaders,
): AsyncGenerator<unknown, unknown, unknown> {
  readers.begin();
  let isReading = true;
  const end = async (failure?: Failure): Promise<void> => {
    if (!isReading) return;
    isReading = false;
    await readers.end(failure);
  };
  const source = opened(open, end);
  let isDone = false;
  const step = async (move: () => Promise<Result>): Promise<Result> => {
    let result;
    try {
      result = await readers.run(move);
    } catch (error) {
      isDone = true; // as an async generator is
      await end({ error });
      throw error;
    }
    if (result.done === true) await end();
    return result;
  };
  const next = async (value: [] | [unknown]): Promise<Result> => {
    if (isDone) return { done: true, value: undefined };
    if (!isReading) {
      readers.begin(); // it was left, and goes on
      isReading = true;
    }
    const result = await step(() => source.next(...value));
    isDone ||= result.done === true;
    return result;
  };
  return {
    next: (...value) => next(value),
    return: (value) =>
      step(async () => {
        const result = await source.return?.(value);
        isDone ||= result?.done === true;
        return result ?? { done: true, value: await value };
      }),
    throw: (error: unknown) =>
      step(async () => {
        if (source.throw !== undefined) return source.throw(error);
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
    void end({ error }); // never rejects: this failure is the caller's
    throw error;
  }
}
