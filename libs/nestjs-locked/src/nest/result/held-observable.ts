import { Observable } from 'rxjs';
import { LockConfigError } from '../../core/lock.errors.js';
import type { ManualHold } from './manual-hold.js';
import { relayObservable } from './relay-observable.js';

/**
 * An Observable whose lock is already held and is released when the last subscription ends. A later subscription fails,
 * because nothing protects the source any more.
 */
export function heldObservable(
  source: Observable<unknown>,
  hold: ManualHold,
  callSite: string,
): Observable<unknown> {
  let open = 0;
  const ended = async (relayed: Promise<void>): Promise<void> => {
    try {
      await relayed;
    } catch (error) {
      open -= 1;
      if (open === 0) await hold.end({ error });
      throw error;
    }
    open -= 1;
    if (open === 0) await hold.end();
  };
  return new Observable((subscriber) => {
    if (hold.isOver) throw subscribedTooLate(callSite);
    open += 1;
    ended(hold.run(() => relayObservable(source, subscriber))).then(
      () => subscriber.complete(),
      (error: unknown) => subscriber.error(error),
    );
  });
}

function subscribedTooLate(callSite: string): LockConfigError {
  return new LockConfigError(
    `Cannot subscribe to the result of ${callSite}: its lock was released when the first subscription ended; set returns: 'observable', so that every subscription takes the lock`,
  );
}
