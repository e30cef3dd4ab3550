import { LockConfigError } from '../../core/lock.errors.js';
import type { MethodKind, ResultKind } from '../result/result-kind.js';
import { isDeclaredObservable } from './declared-observable.js';
import { assertMayWait, type DecoratedMethod } from './decorated-method.js';
import { LOCKED_METHOD, type LockedMethodInfo } from './locked-methods.registry.js';

/**
 * Decides the kind while the class is being defined, because a caller must get an Observable or iterable at once,
 * before the lock is acquired.
 *
 * @throws LockConfigError if the method is visibly of another kind than `returns`, or returns a plain value
 */
export function methodKind(method: DecoratedMethod, returns: ResultKind | undefined): MethodKind {
  const visible = visibleKind(method);
  if (visible !== undefined && returns !== undefined && visible !== returns) {
    throw new LockConfigError(
      `Invalid option of @Locked on ${method.callSite}: returns is '${returns}', but the method is declared as '${visible}'; leave the option out`,
    );
  }
  if (visible === undefined && returns === undefined) assertMayWait(method);
  return visible ?? returns ?? 'undeclared';
}

function visibleKind({ target, name, original }: DecoratedMethod): ResultKind | undefined {
  // If this is a second @Locked on the same method, the first one hides the method.
  const locked = Reflect.get(original, LOCKED_METHOD) as LockedMethodInfo | undefined;
  if (locked !== undefined) return locked.kind === 'undeclared' ? 'promise' : locked.kind;
  // Compares the tag, because `instanceof` fails for functions of another realm, such as that of Jest's tests.
  const tag = (original as { [Symbol.toStringTag]?: string })[Symbol.toStringTag];
  if (tag === 'AsyncGeneratorFunction') return 'iterable';
  return isDeclaredObservable(target, name) ? 'observable' : undefined;
}
