import { invalidOption, LockConfigError } from '../core/lock.errors.js';
import { describeValue } from '../core/runtime/shown-value.js';
import { lockServiceProperty } from '../nest/decorator/lock-service.token.js';
import { lockedMethodsOf } from '../nest/decorator/locked-methods.registry.js';
import { sharedTestLocks } from './shared-test-locks.js';
import { TestLocks } from './test-locks.js';

/**
 * Gives an instance that Nest did not create the lock service of its `@Locked` methods, so that they can be called in a
 * plain unit test. The locks are real, but in memory: calls for the same key take turns.
 *
 * @example const stock = withTestLocks(new StockService(repository));
 * @param locks instances with the same object share lock services. @default one object for the whole process
 * @returns the same instance
 * @throws LockConfigError if the instance has no locked methods, because the test would then prove nothing about locks,
 * or if `locks` is not a TestLocks
 */
export function withTestLocks<T extends object>(
  instance: T,
  locks: TestLocks = sharedTestLocks,
): T {
  const given: object | null | undefined = instance;
  if (given instanceof TestLocks) {
    throw new LockConfigError(
      'withTestLocks takes the instance first, and then the TestLocks: withTestLocks(instance, locks)',
    );
  }
  const methods = lockedMethodsOf(given ?? {});
  if (methods.length === 0) {
    throw new LockConfigError(
      typeof given === 'function'
        ? `Cannot give test locks to the class ${given.name}; pass an instance: withTestLocks(new ${given.name}(…))`
        : `Cannot give test locks to ${given?.constructor?.name ?? describeValue(given)}: it has no method with @Locked; pass an instance of the class that has one, not a mock`,
    );
  }
  // It may be of another copy of this package.
  if (typeof (locks as TestLocks | null)?.service !== 'function') {
    throw invalidOption('locks', locks, 'must be a TestLocks; pass new TestLocks()');
  }
  for (const { service } of methods) {
    Reflect.set(instance, lockServiceProperty(service), locks.service(service));
  }
  return instance;
}
