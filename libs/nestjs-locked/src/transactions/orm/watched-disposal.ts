/** A query runner of TypeORM; older versions are not disposable. */
interface Disposable {
  [Symbol.asyncDispose]?: () => Promise<void>;
}

/**
 * Recognizes `await using`, which commits the transaction itself even with nested ones open. It calls commit
 * synchronously.
 *
 * @returns whether the running code is called by the disposal
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
