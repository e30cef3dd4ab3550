import { LockEngine } from '../core/engine/lock-engine.js';
import type { LockServiceOptions } from '../core/lock.options.js';
import { resolveServiceOptions } from '../core/resolved.options.js';
import { LockService } from '../nest/lock.service.js';
import { InMemoryLockStore } from './in-memory-lock-store.js';
import { InMemoryLocks } from './in-memory-locks.js';

/** The locks of services that were given none of their own. They share these as instances share one Redis. */
const shared = new InMemoryLocks();

/** An engine on the in-memory store, with the defaults and checks of the real one. */
export function inMemoryEngine(
  options: LockServiceOptions = {},
  locks: InMemoryLocks = shared,
): LockEngine {
  const resolved = resolveServiceOptions(options);
  const store = new InMemoryLockStore(locks, resolved.leaseMs);
  return new LockEngine({ store, options: resolved, report: () => {}, clock: locks.clock });
}

/**
 * A `LockService` that really excludes others, within this process and without Redis.
 *
 * @param locks services made with the same object exclude each other. @default one object for the whole process
 */
export function inMemoryLockService(
  options?: LockServiceOptions,
  locks?: InMemoryLocks,
): LockService {
  return new LockService(inMemoryEngine(options, locks));
}
