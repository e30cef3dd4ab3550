import { LockConfigError } from '../core/lock.errors.js';
import { lockServiceProperty } from '../nest/decorator/lock-service.token.js';
import { lockedMethodsOf } from '../nest/decorator/locked-methods.registry.js';
import type { LockService } from '../nest/lock.service.js';
import { inMemoryLockService } from './in-memory-lock-service.js';

/**
 * Gives an instance that Nest did not make the lock service that its `@Locked` methods need, so that they can be called
 * in a plain unit test. The locks are real, but in memory: calls for the same key take turns.
 *
 * @example const stock = withTestLocks(new StockService(repository));
 * @param service a lock service to use instead of the in-memory one
 * @returns the same instance
 * @throws LockConfigError if the instance has no locked methods, because the test would then prove nothing about locks
 */
export function withTestLocks<T extends object>(
  instance: T,
  service: LockService = inMemoryLockService(),
): T {
  const methods = lockedMethodsOf(instance);
  if (methods.length === 0) {
    const name = instance.constructor?.name ?? 'this object';
    throw new LockConfigError(`Cannot give test locks to ${name}: it has no method with @Locked`);
  }
  for (const method of methods) Reflect.set(instance, lockServiceProperty(method.service), service);
  return instance;
}
