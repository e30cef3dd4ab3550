/** A query runner of TypeORM; those of older versions cannot be disposed of. */
interface Disposable {
  [Symbol.asyncDispose]?: () => Promise<void>;
}

/**
 * Recognises `await using`, which commits the transaction itself, whatever is nested in it. It does so before it waits
 * for anything.
 *
 * @returns whether the code that runs now is called by the disposal
 */
export function watchDisposal(runner: Disposable): () => boolean {
  const dispose = runner[Symbol.asyncDispose];
  let isDisposing = false;
  if (dispose !== undefined) {
    runner[Symbol.asyncDispose] = () => {
      isDisposing = true;
      try {
        return dispose.call(runner);
      } finally {
        isDisposing = false;
      }
    };
  }
  return () => isDisposing;
}
