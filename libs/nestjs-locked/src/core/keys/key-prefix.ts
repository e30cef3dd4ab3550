import { type Check, must } from '../option.js';

export const DEFAULT_KEY_PREFIX = 'lock:';

/** @throws LockConfigError unless the value can precede every key and channel */
export const assertKeyPrefix: Check = must(
  `a string without braces or white space, such as '${DEFAULT_KEY_PREFIX}'; the library adds the braces that a cluster needs`,
  (value) => typeof value === 'string' && !/[{}\s]/.test(value),
);
