import type { ManualHold } from './manual-hold.js';

/**
 * Passes an iteration on and releases the lock when it ends: when it is done, has failed, or is left by its reader
 * (`break`, `return()`, `throw()`). The last result arrives after the lock was released.
 */
export function heldIterator(
  source: AsyncIterator<unknown, unknown, unknown>,
  hold: ManualHold,
): AsyncGenerator<unknown, unknown, unknown> {
  type Step = () => Promise<IteratorResult<unknown, unknown>>;
  const step = async (move: Step): Promise<IteratorResult<unknown, unknown>> => {
    let result;
    try {
      result = await hold.run(move);
    } catch (error) {
      await hold.end({ error });
      throw error;
    }
    if (result.done === true) await hold.end();
    return result;
  };
  return {
    next: (...value) => step(() => source.next(...value)),
    return: (value) =>
      step(async () => (await source.return?.(value)) ?? { done: true, value: await value }),
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
