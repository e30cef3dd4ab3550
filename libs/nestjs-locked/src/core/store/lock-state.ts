import type { LockState } from '../lock-info.js';
import { tokensIn } from './shared-value.js';

/** @param value what the store has for the key */
export function lockState(value: string): LockState {
  if (tokensIn(value).length > 0) return 'held';
  if (value.startsWith('kept:')) return 'kept';
  return value.startsWith('revoked:') ? 'revoked' : 'foreign';
}
