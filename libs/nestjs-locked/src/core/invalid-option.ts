import { LockConfigError } from './lock.errors.js';

/** @param rule what is allowed: `must be true or false` */
export function invalidOption(name: string, value: unknown, rule: string): LockConfigError {
  const shown = typeof value === 'string' ? `'${value}'` : String(value);
  return new LockConfigError(`Invalid option ${name}: ${shown} ${rule}`);
}
