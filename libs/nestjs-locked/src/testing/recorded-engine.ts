import { readHandOff } from '../core/calls/hand-off.js';
import type { HeldLock } from '../core/calls/held-lock.js';
import type { LockEngine, LockEngineOptions } from '../core/engine/lock-engine.js';
import type { Lock } from '../core/lock.js';
import type { AdoptOptions, LockKeys, LockOptions, WithLockOptions } from '../core/lock.options.js';
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

  const adopted = (text: string): RecordedCall =>
    asked('adopt', handedOverKeys(text, options.keyPrefix));

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

    override adopt(text: string, given?: AdoptOptions): Promise<HeldLock> {
      const call = adopted(text);
      return call.until(lockedBy(call, super.adopt(text, given)));
    }

    override withAdopted<T>(
      text: string,
      given: AdoptOptions,
      work: (lock: Lock) => T | Promise<T>,
    ): Promise<T> {
      const call = adopted(text);
      const recorded = (lock: Lock): T | Promise<T> => {
        call.locked(lock);
        return work(lock);
      };
      return call.until(super.withAdopted(text, given, recorded));
    }
  }
  return new RecordedEngine(options);
}

/** None if the text is not one of `detach()`, which the engine says. */
function handedOverKeys(text: string, keyPrefix: string | undefined): string[] {
  try {
    return readHandOff(text, keyPrefix).map(({ key }) => key);
  } catch {
    return [];
  }
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
