import type { Type } from '@nestjs/common';

/** Also of another copy of this package. */
const IS_LOCK_INTERCEPTOR = Symbol.for('nestjs-locked/LockInterceptor');

/** Marks a class that `LockInterceptor` has made. */
export function markLockInterceptor(made: Type): void {
  Object.defineProperty(made, IS_LOCK_INTERCEPTOR, { value: true });
}

/** Whether it is such a class, and not an instance of one. */
export function isLockInterceptor(value: unknown): value is Type {
  return typeof value === 'function' && Object.hasOwn(value, IS_LOCK_INTERCEPTOR);
}
