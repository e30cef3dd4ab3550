import type { LockInfo } from '../core/lock-info.js';
import type { LockState } from './lock-state.js';

/** A lock as an operator sees it. */
export interface LockView extends LockInfo {
  readonly state: LockState;
  /** The text in Redis; each lease of a key has another one. */
  readonly value: string;
}
