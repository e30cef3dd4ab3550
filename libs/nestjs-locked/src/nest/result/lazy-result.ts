import { isObservable } from 'rxjs';
import { answersEveryName } from './streamed-result.js';

/**
 * The problem of a result that is certainly work still to be done, and the way out. A Subject is none: it emits whether
 * or not anybody subscribes.
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

function tooLate(what: string, remedy: string): string {
  return `the work returned ${what}, which would run after the lock has been released; ${remedy}`;
}
