import { LockConfigError } from '../lock.errors.js';
import type { KeyTerms } from '../lock-mode.js';
import { arePermits, PERMITS_ALLOWED } from '../option-tables.js';
import { assertFits, type ResolvedLockOptions } from '../resolved.options.js';
import { shownValue } from '../runtime/shown-value.js';

/**
 * How a call wants each of its keys, as its options say.
 * @throws LockConfigError if a function gives no mode or number for a key, or fewer permits than the call wants
 */
export function termsOfEach(
  keys: readonly string[],
  options: ResolvedLockOptions,
): ReadonlyMap<string, KeyTerms> {
  const termsOf = options.mode === 'permit' ? permitsOf : modeOf;
  return new Map(keys.map((key) => [key, termsOf(key, options)]));
}

function modeOf(key: string, { mode }: ResolvedLockOptions): KeyTerms {
  const its: unknown = typeof mode === 'function' ? mode(key) : mode;
  if (its === 'shared' || its === 'exclusive') return { mode: its };
  throw new LockConfigError(
    `Cannot lock '${key}': the function in mode gave ${shownValue(its)} for it; return 'exclusive' or 'shared'`,
    key,
  );
}

function permitsOf(key: string, { permits, weight }: ResolvedLockOptions): KeyTerms {
  const its: unknown = typeof permits === 'function' ? permits(key) : permits;
  if (its === undefined) return { mode: 'exclusive' };
  if (arePermits(its)) {
    assertFits(weight, its);
    return { mode: 'permit', permits: its, weight };
  }
  throw new LockConfigError(
    `Cannot lock '${key}': the function in permits gave ${shownValue(its)} for it; return ${PERMITS_ALLOWED}, or undefined to lock the key exclusively`,
    key,
  );
}
