import { LockConfigError } from './lock.errors.js';
import { describeValue, shownValue } from './runtime/shown-value.js';

/** Whether the value can have named options. */
export function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Whether it is a Promise, of whatever library. */
export function isPromiseLike(value: unknown): boolean {
  return typeof (value as Partial<PromiseLike<unknown>> | null | undefined)?.then === 'function';
}

/** How many names of options a message shows. */
const SHOWN_NAMES = 4;

/**
 * @param names the options that it may have, for the message
 * @param remedy what to say after them. @default nothing
 * @throws LockConfigError if the options are not an object
 */
export function assertIsObject(
  options: unknown,
  names: readonly string[],
  remedy: (options: unknown) => string = () => '',
): asserts options is object {
  if (isObject(options)) return;
  const shown = [...names.slice(0, SHOWN_NAMES), ...(names.length > SHOWN_NAMES ? ['…'] : [])];
  throw new LockConfigError(
    `Invalid options: ${shownValue(options)} must be an object of options: { ${shown.join(', ')} }${remedy(options)}`,
  );
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

/**
 * The error for an argument of another kind.
 * @param rule what the function takes @param remedy what to pass instead
 */
export function wrongArgument(rule: string, value: unknown, remedy: string): LockConfigError {
  return new LockConfigError(`${rule}, and not ${describeValue(value)}; ${remedy}`);
}
