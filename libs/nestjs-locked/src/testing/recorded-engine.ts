import type { HeldLock } from '../core/calls/held-lock.js';
import type { LockEngine, LockEngineOptions } from '../core/engine/lock-engine.js';
import type { Lock } from '../core/lock.js';
import type { LockKeys, LockOptions, WithLockOptions } from '../core/lock.options.js';
import type { RecordedCall, RecordedCalls } from './recorded-calls.js';

/**
 * An engine that records its calls and their outcomes.
 *
 * @param Engine the application's class, which may be of another copy of this package than the test's
 */
export function recordedEngine(
  Engine: typeof LockEngine,
  options: LockEngineOptions,
  calls: RecordedCalls,
): LockEngine {
  const asked = (by: string, keys: LockKeys): RecordedCall => calls.asked(by, keys, options.name);

  class RecordedEngine extends Engine {
    override withLock<T>(
      keys: LockKeys,
      given: WithLockOptions,
      work: (lock: Lock) => T | Promise<T>,
      callSite?: string,
      template?: string,
    ): Promise<T> {
      const call = asked(callSite ?? 'withLock', keys);
      const recorded = (lock: Lock): T | Promise<T> => {
        call.locked(lock);
        return work(lock);
      };
      return call.until(
        super.withLock(keys, tellingBusy(call, given), recorded, callSite, template),
      );
    }

    override acquire(keys: LockKeys, given?: LockOptions): Promise<HeldLock> {
      const call = asked('acquire', keys);
      return call.until(lockedBy(call, super.acquire(keys, given)));
    }

    override tryAcquire(keys: LockKeys, given?: LockOptions): Promise<HeldLock | null> {
      const call = asked('tryAcquire', keys);
      return call.until(lockedBy(call, super.tryAcquire(keys, given)));
    }
  }
  return new RecordedEngine(options);
}

/** The same options, with an `onBusy` that notifies the call first. */
function tellingBusy(call: RecordedCall, given: WithLockOptions): WithLockOptions {
  const onBusy = (given as WithLockOptions | null)?.onBusy; // the service refuses null
  if (typeof onBusy !== 'function') return given;
  return {
    ...given,
    onBusy: (busy) => {
      call.busy();
      return onBusy(busy);
    },
  };
}

async function lockedBy<T extends Lock | null>(
  call: RecordedCall,
  acquired: Promise<T>,
): Promise<T> {
  const lock = await acquired;
  if (lock !== null) call.locked(lock);
  return lock;
}
