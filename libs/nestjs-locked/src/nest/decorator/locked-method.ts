import type { LockRunner } from '../../core/engine/lock-runner.js';
import type { LockKeys, WithLockOptions } from '../../core/lock.options.js';
import { withSignal } from '../../core/resolved.options.js';
import type { LockedCall } from '../result/locked-call.js';
import { LOCKED_RESULT } from '../result/locked-result.js';
import type { Enter } from '../result/manual-hold.js';
import type { MethodKind } from '../result/result-kind.js';
import type { DecoratedMethod, Method } from './decorated-method.js';
import { findLockRunner } from './hidden-lock-service.js';
import { keepMethodIdentity } from './keep-method-identity.js';

/** How the calls of one method are locked, as known while the class is being defined. */
export interface LockedMethodPlan {
  readonly method: DecoratedMethod;
  /** The key as it was written, unless a function builds it. */
  readonly template: string | undefined;
  /** @throws LockKeyError */
  readonly keysOf: (args: readonly unknown[]) => LockKeys;
  readonly kind: MethodKind;
  readonly service: string | undefined;
  /** Checked already. */
  readonly options: WithLockOptions;
}

/**
 * Makes the method that replaces a locked one. It runs the original only while the lock is held. An invalid call (no
 * lock service, a key that cannot be built) fails before any Redis traffic.
 */
export function lockMethod(plan: LockedMethodPlan): Method {
  const { original, callSite } = plan.method;
  const lockedResult = LOCKED_RESULT[plan.kind];
  const runnerOf = findLockRunner(plan.service, callSite);
  const wrapper: Method = function (...args) {
    const call: LockedCall = {
      callSite,
      enter: enterOf(plan, () => runnerOf(this), args),
      run: () => Reflect.apply(original, this, args),
    };
    return lockedResult(call);
  };
  keepMethodIdentity(original, wrapper);
  return wrapper;
}

/** Builds the key now, so that changes to the arguments while the call waits do not affect it. */
function enterOf(
  plan: LockedMethodPlan,
  findRunner: () => LockRunner,
  args: readonly unknown[],
): Enter {
  try {
    const runner = findRunner();
    const keys = plan.keysOf(args);
    return (work, signal) =>
      runner.withLock(
        keys,
        signal === undefined ? plan.options : withSignal(plan.options, signal),
        work,
        plan.method.callSite,
        plan.template,
      );
  } catch (error) {
    const failure = error as Error;
    return () => Promise.reject(failure);
  }
}
