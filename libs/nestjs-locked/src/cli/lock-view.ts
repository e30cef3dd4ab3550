import type { LockInfo } from '../core/lock-info.js';

/** A lock as an operator sees it, without what only a script can tell. */
export interface LockView extends Omit<LockInfo, 'fencingToken' | 'queue'> {
  /** The text in Redis; each lease of a key has another one. */
  readonly value: string;
}
