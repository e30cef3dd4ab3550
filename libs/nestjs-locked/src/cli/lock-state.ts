import { processIdOf } from '../core/store/lease-token.js';

/** Why a key is taken: by a call, by `holdAtLeastMs`, after a release by an operator, by another kind of client. */
export type LockState = 'held' | 'kept' | 'revoked' | 'foreign';

/** @param value the text in Redis */
export function lockState(value: string): LockState {
  if (processIdOf(value) !== undefined) return 'held';
  if (value.startsWith('kept:')) return 'kept';
  return value.startsWith('revoked:') ? 'revoked' : 'foreign';
}
