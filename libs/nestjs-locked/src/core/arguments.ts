import { LockConfigError } from './lock.errors.js';
import { shownValue } from './runtime/shown-value.js';

/** Whether the value can have named options. */
export function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** @throws LockConfigError if the options are not an object */
export function assertIsObject(options: unknown): asserts options is object {
  if (isObject(options)) return;
  throw new LockConfigError(`Invalid options: ${shownValue(options)} must be an object`);
}

/** @param usage the correct form of the call, for the message @throws LockConfigError if it cannot be called */
export function assertIsFunction(work: unknown, usage: string): void {
  if (typeof work === 'function') return;
  throw new LockConfigError(
    `Invalid argument: ${shownValue(work)} must be a function; write ${usage}`,
  );
}

/** @param usage the correct form of the call, for the message @throws LockConfigError if it is a primitive value */
export function assertIsReference(value: unknown, usage: string): void {
  if (Object(value) === value) return;
  throw new LockConfigError(
    `Invalid argument: ${shownValue(value)} must be an object; write ${usage}`,
  );
}
