import { from, type ObservableInput, ReplaySubject, type Subscriber, takeUntil } from 'rxjs';
import { isPromiseLike } from '../../core/arguments.js';

/**
 * Forwards values to a subscriber, but not the completion, because the lock is released first. Settles when the source
 * has ended, or when the subscriber has left and the source was unsubscribed from.
 *
 * @param staysUntilFirstValue whether the source stays subscribed to until its first value even if the subscriber
 * leaves before, because it may be work that cannot be stopped. Always so for a Promise
 */
export function relayObservable(
  source: ObservableInput<unknown>,
  subscriber: Subscriber<unknown>,
  staysUntilFirstValue = false,
): Promise<void> {
  return new Promise((resolve, reject) => {
    let mayWorkUnseen = staysUntilFirstValue || isPromiseLike(source);
    // Not `subscriber.add(subscription)`: a source that emits synchronously must stop as soon as enough was taken, when
    // its subscription does not exist yet. A subscriber may also have left before, while the source was created.
    const left = new ReplaySubject<void>(1);
    subscriber.add(() => {
      if (!mayWorkUnseen) left.next();
    });
    from(source)
      .pipe(takeUntil(left))
      .subscribe({
        next: (value) => {
          mayWorkUnseen = false;
          if (subscriber.closed) left.next();
          else subscriber.next(value);
        },
        error: reject,
        complete: resolve,
      });
  });
}
