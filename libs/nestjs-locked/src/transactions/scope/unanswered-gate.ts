import { LockLostError } from '../../core/lock.errors.js';
import type { Hold } from '../../core/queue/hold.js';

/** The error for an unanswered gate; no COMMIT was sent. @param cause the loss of a hold meanwhile, if known */
export function gateUnanswered(holds: readonly Hold[], cause: unknown): LockLostError {
  const known = cause instanceof LockLostError ? cause : undefined;
  const key = known?.key ?? holds[0]?.key ?? '';
  return new LockLostError(
    `The transaction is rolled back: before COMMIT, its connection has not answered for as long as lock '${key}' lasts (it has died silently, or a stream was not read to its end), and is closed`,
    key,
    known?.reason ?? 'expired',
    { cause },
  );
}
