import type { LockState } from '../lock-info.js';
import { processIdOf } from './lease-token.js';

/** @param value what the store has for the key */
export function lockState(value: string): LockState {
  if (processIdOf(value) !== undefined) return 'held';
  if (value.startsWith('kept:')) return 'kept';
  return value.startsWith('revoked:') ? 'revoked' : 'foreign';
}
