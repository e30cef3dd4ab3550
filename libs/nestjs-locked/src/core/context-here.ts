import { AsyncResource } from 'node:async_hooks';

/**
 * Remembers the async context of the code that calls this, like `AsyncLocalStorage.snapshot`. That one takes 20 µs up
 * to Node 22, because it makes a function with deprecated properties.
 * @returns runs work in that context
 */
export function contextHere(): <R>(work: () => R) => R {
  const here = new AsyncResource('Lock');
  return (work) => here.runInAsyncScope(work);
}
