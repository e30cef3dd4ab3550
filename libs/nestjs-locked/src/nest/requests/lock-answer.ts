import { STATUS_CODES } from 'node:http';
import { type LockError, type LockErrorCode, LockStoreError } from '../../core/lock.errors.js';

/** The answer to a client. It omits the key, which may reveal more about others than a client should know. */
export interface LockAnswer {
  readonly code: LockErrorCode;
  readonly message: string;
  /** Only if the same request may succeed later. */
  readonly retryAfterMs?: number;
}

/** The HTTP status of each error, unless the application says otherwise. */
export const DEFAULT_STATUSES: Readonly<Record<LockErrorCode, number>> = Object.freeze({
  LOCK_NOT_ACQUIRED: 423,
  LOCK_QUEUE_FULL: 503,
  LOCK_DEADLOCK: 503,
  LOCK_STORE_FAILED: 503,
  LOCK_ABORTED: 503,
  LOCK_LOST: 500,
  LOCK_NOT_HELD: 500,
  LOCK_NOT_ADOPTED: 500,
  LOCK_FENCED: 500,
  LOCK_COMMIT_UNKNOWN: 500,
  LOCK_IN_TRANSACTION: 500,
  LOCK_KEY_INVALID: 500,
  LOCK_CONFIG_INVALID: 500,
});

export const DEFAULT_RETRY_AFTER_SECONDS = 1;

/** Nothing is wrong with the request. */
const RETRYABLE: ReadonlySet<LockErrorCode> = new Set([
  'LOCK_NOT_ACQUIRED',
  'LOCK_QUEUE_FULL',
  'LOCK_DEADLOCK',
  'LOCK_STORE_FAILED',
  'LOCK_ABORTED',
]);

/**
 * Whether the request may be sent again as it is: nothing has run of what waited for the lock or the fence. What the
 * application did before that is not known here.
 */
export function isRetryable(error: LockError): boolean {
  const workBegan = error instanceof LockStoreError && error.workBegan;
  return RETRYABLE.has(error.code) && !workBegan;
}

export function answerTo(
  error: LockError,
  status: number,
  retryAfterSeconds: number = DEFAULT_RETRY_AFTER_SECONDS,
): LockAnswer {
  const { code } = error;
  if (!isRetryable(error)) return { code, message: STATUS_CODES[status] ?? 'Error' };
  return { code, message: messageOf(code), retryAfterMs: retryAfterSeconds * 1_000 };
}

function messageOf(code: LockErrorCode): string {
  if (code === 'LOCK_NOT_ACQUIRED' || code === 'LOCK_DEADLOCK') return 'In use, try again';
  if (code === 'LOCK_QUEUE_FULL') return 'Too many wait for it, try again';
  return 'Locks are unavailable, try again';
}
