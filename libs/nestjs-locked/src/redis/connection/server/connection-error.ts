import { LockConfigError } from '../../../core/lock.errors.js';

/** @param problem what is wrong, and what to write instead; without credentials */
export function invalidConnection(problem: string, options?: ErrorOptions): LockConfigError {
  return new LockConfigError(`Invalid option connection: ${problem}`, undefined, options);
}
