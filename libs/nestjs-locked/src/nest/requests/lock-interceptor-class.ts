import type { Type } from '@nestjs/common';
import { LockConfigError } from '../../core/lock.errors.js';

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

/** The error for an instance that the application has made itself. @param place what it was to lock */
export function madeWithNew(place: string): LockConfigError {
  return new LockConfigError(
    `Cannot lock ${place}: its LockInterceptor was made with new, so it has no LockService; name the class in @UseInterceptors(LockInterceptor(…)), or provide it: { provide: APP_INTERCEPTOR, useClass: LockInterceptor(…) }`,
  );
}
