import { LockConfigError } from '../../core/lock.errors.js';
import { isAsyncIterable } from './async-iterable.js';
import { heldIterator } from './held-iterator.js';
import type { LockedCall } from './locked-call.js';
import { type ManualHold, openManualHold } from './manual-hold.js';
import { ResultReaders } from './result-readers.js';

type Iteration = AsyncGenerator<unknown, unknown, unknown>;
type Result = IteratorResult<unknown, unknown>;

/**
 * Takes the lock and runs the method when the first value is requested. A result of `onBusy` is yielded instead: an
 * async iterable as it is, undefined as nothing, and any other value as the only one.
 *
 * Not an async generator, which answers `return()` only after the pending value: a reader that leaves a quiet source
 * would keep the lock. Leaving while waiting for the lock ends the wait.
 */
export function lockedIterable(call: LockedCall): Iteration {
  const left = new AbortController();
  let opening: Promise<Iteration | undefined> | undefined;
  let isDone = false;
  /** Undefined if there is nothing to iterate. Only the call that opens the iteration gets its failure. */
  const opened = async (): Promise<Iteration | undefined> => {
    if (isDone) return undefined;
    if (opening !== undefined) return opening.catch(() => undefined);
    opening = openIteration(call, left.signal);
    return opening;
  };
  const step = async (
    move: (source: Iteration) => Promise<Result>,
  ): Promise<Result | undefined> => {
    try {
      const source = await opened();
      if (source === undefined || isDone) return undefined;
      const result = await move(source);
      isDone ||= result.done === true;
      return result;
    } catch (error) {
      isDone = true; // like an async generator
      throw error;
    }
  };
  const leave = async (
    move: (source: Iteration) => Promise<Result>,
  ): Promise<Result | undefined> => {
    left.abort();
    isDone ||= opening === undefined;
    return step(move);
  };
  return {
    next: async (...value) =>
      (await step((source) => source.next(...value))) ?? { done: true, value: undefined },
    return: async (value) =>
      (await leave((source) => source.return(value))) ?? { done: true, value: await value },
    throw: async (error: unknown) => {
      const result = await leave((source) => source.throw(error));
      if (result === undefined) throw error;
      return result;
    },
    [Symbol.asyncIterator]() {
      return this;
    },
    async [Symbol.asyncDispose]() {
      await this.return(undefined);
    },
  };
}

/** Undefined if the reader left before the method ran. */
async function openIteration(
  { enter, run, callSite }: LockedCall,
  left: AbortSignal,
): Promise<Iteration | undefined> {
  let hold;
  try {
    hold = await openManualHold(enter, left);
  } catch (error) {
    if (left.aborted) return undefined;
    throw error;
  }
  if ('instead' in hold) return substitute(hold.instead);
  if (left.aborted) {
    await hold.end();
    return undefined;
  }
  const source = await sourceOf(hold, run, callSite);
  return heldIterator(() => source[Symbol.asyncIterator](), new ResultReaders(hold, callSite));
}

async function sourceOf(
  hold: ManualHold,
  run: () => unknown,
  callSite: string,
): Promise<AsyncIterable<unknown>> {
  try {
    const result = await hold.run(async () => run());
    if (isAsyncIterable(result)) return result;
    throw new LockConfigError(
      `Cannot iterate the result of ${callSite}: it is not an async iterable; leave out returns: 'iterable'`,
    );
  } catch (error) {
    await hold.end({ error });
    throw error;
  }
}

function substitute(instead: unknown): Iteration {
  const source = isAsyncIterable(instead) ? instead : onlyValue(instead);
  return heldIterator(() => source[Symbol.asyncIterator](), {
    run: (move) => move(),
    whenTooLateToRead: () => {},
    begin: () => {},
    end: () => Promise.resolve(),
  });
}

async function* onlyValue(value: unknown): AsyncGenerator<unknown> {
  if (value !== undefined) yield value;
}
