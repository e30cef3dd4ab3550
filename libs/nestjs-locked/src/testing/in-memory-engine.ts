import { LockEngine } from '../core/engine/lock-engine.js';
import type { LockServiceOptions } from '../core/lock.options.js';
import { resolveServiceOptions } from '../core/resolved.options.js';
import { InMemoryLockStore } from './in-memory-lock-store.js';
import type { InMemoryLocks } from './in-memory-locks.js';

/** An engine with the in-memory store and the defaults and checks of the real one. */
export function inMemoryEngine(options: LockServiceOptions, locks: InMemoryLocks): LockEngine {
  const resolved = resolveServiceOptions(options);
  const store = new InMemoryLockStore(locks, resolved.leaseMs);
  return new LockEngine({ store, options: resolved, report: () => {}, clock: locks.clock });
}
