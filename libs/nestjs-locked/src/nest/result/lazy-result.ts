import { inspect } from 'node:util';
import { isAsyncIterable } from './async-iterable.js';
import { answersEveryName } from './auto-mock.js';

/**
 * The problem of a result that is certainly work still to be done, and the way out. A Subject is none: it emits whether
 * or not anybody subscribes.
 *
 * Imports neither rxjs nor Nest, because `LockService` does not either: so one copy of it serves both kinds of module.
 */
export function lazyProblem(result: unknown): string | undefined {
  if (typeof result !== 'object' || result === null) return undefined;
  if (isObservable(result)) {
    if ('next' in result || answersEveryName(result)) return undefined;
    return tooLate('an Observable', 'return lastValueFrom(observable)');
  }
  if (Array.isArray(result)) return arrayProblem(result);
  return /^(?:Async)?Generator$/.test(tagOf(result))
    ? tooLate('a generator', 'read it inside the work')
    : undefined;
}

/**
 * Whether it is read after the work, maybe needlessly without the lock: a stream or an async iterable. False if it was
 * read, for sockets, which stay open, and for messages of HTTP, of which often only the head is read.
 */
export function isUnread(result: unknown): boolean {
  try {
    const source = result?.constructor.name === 'StreamableFile' ? streamIn(result) : result;
    if (!isAsyncIterable(source) || 'then' in source || answersEveryName(source)) return false;
    const { readable, writable, locked, httpVersion } = source as unknown as Record<
      string,
      unknown
    >;
    const isDone = readable === false || locked === true;
    return !isDone && writable !== true && httpVersion === undefined;
  } catch {
    return false; // its members cannot be read, so nobody reads it as a stream
  }
}

function streamIn(file: object): unknown {
  return (file as { getStream: () => unknown }).getStream();
}

/** An array that has something else, too, may be passed on on purpose; and Promises that have settled are no work. */
function arrayProblem(result: readonly unknown[]): string | undefined {
  const promises = result.filter((it): it is Promise<unknown> => tagOf(it) === 'Promise');
  if (promises.length < result.length || !promises.some(isPending)) return undefined;
  for (const promise of promises) promise.catch(() => {}); // must not also end the process
  return tooLate('an array of Promises', 'return Promise.all(…) of it');
}

function isPending(promise: unknown): boolean {
  return /^[^{]*\{\s*<pending>/.test(inspect(promise, { depth: 0 }));
}

function tagOf(value: unknown): string {
  return Object.prototype.toString.call(value).slice('[object '.length, -1);
}

/** As rxjs recognizes those of another copy. */
function isObservable(value: object): boolean {
  const { lift, subscribe } = value as Record<string, unknown>;
  return typeof lift === 'function' && typeof subscribe === 'function';
}

function tooLate(what: string, remedy: string): string {
  return `the work returned ${what}, which would run after the lock has been released; ${remedy}`;
}
