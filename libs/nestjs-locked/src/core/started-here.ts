import { isPromiseLike } from './arguments.js';

/**
 * The result of work, begun in the async context of this call: a lazy one, such as a query, starts where it is awaited.
 * A Promise is none, and needs no other around it.
 */
export function startedHere<T>(result: T | Promise<T>): T | Promise<T> {
  return result instanceof Promise || !isPromiseLike(result) ? result : Promise.resolve(result);
}
