import { LockKeyError, LockStoreError } from '../core/lock.errors.js';
import type { LockService } from '../nest/lock.service.js';
import type { ReleaseRequest } from './dashboard-messages.js';
import type { DashboardOperator } from './lock-dashboard.options.js';
import type { OperatorLog } from './operator-log.js';
import { Refusal } from './refusal.js';

/**
 * Takes a lock away from the holder that the operator saw, and from nobody else.
 * @param body what was sent @returns a sentence about it @throws Refusal
 */
export async function releaseLock(
  locks: Pick<LockService, 'inspect' | 'forceRelease'>,
  log: OperatorLog,
  { role, name }: DashboardOperator,
  body: unknown,
): Promise<string> {
  if (role !== 'admin') throw new Refusal(403, 'You may look, but not release locks.');
  const { key, leaseId, fencingToken } = confirmed(body);
  try {
    const isSeen = fencingToken === null || (await isThatHold(locks, key, fencingToken));
    const isReleased = isSeen && (await locks.forceRelease(key, leaseId));
    log.add(name, key, isReleased ? 'released' : 'refused');
    if (isReleased) return 'The lock was released. The next caller enters in a second.';
  } catch (error) {
    if (error instanceof LockKeyError) throw new Refusal(400, error.message);
    if (!(error instanceof LockStoreError)) throw error;
    log.add(name, key, 'unknown');
    throw new Refusal(503, `${error.message}. The lock may have been released: look again.`);
  }
  throw new Refusal(
    409,
    'Nothing was released: the lock is free, or somebody else has got it since you looked.',
  );
}

/** A process hands its leases on among its calls, so the lease may be that of another call now. */
async function isThatHold(
  locks: Pick<LockService, 'inspect'>,
  key: string,
  fencingToken: number,
): Promise<boolean> {
  const lock = await locks.inspect(key);
  return (lock?.fencingToken ?? fencingToken) === fencingToken; // unknown if its process does not say
}

function confirmed(body: unknown): ReleaseRequest {
  const { key, confirmation, leaseId, fencingToken } = Object(body) as Record<string, unknown>;
  if (typeof key !== 'string' || typeof leaseId !== 'string') {
    throw new Refusal(400, 'The body must have the key and the leaseId of the lock.');
  }
  const fence = typeof fencingToken === 'number' ? fencingToken : null;
  if (confirmation === key) return { key, confirmation, leaseId, fencingToken: fence };
  throw new Refusal(400, 'The key was not typed as it is.');
}
