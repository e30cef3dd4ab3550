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
  const isGenerator = /^\[object (?:Async)?Generator\]$/.test(
    Object.prototype.toString.call(result),
  );
  return isGenerator ? tooLate('a generator', 'read it inside the work') : undefined;
}

/** As rxjs recognizes those of another copy. */
function isObservable(value: object): boolean {
  const { lift, subscribe } = value as Record<string, unknown>;
  return typeof lift === 'function' && typeof subscribe === 'function';
}

function tooLate(what: string, remedy: string): string {
  return `the work returned ${what}, which would run after the lock has been released; ${remedy}`;
}
