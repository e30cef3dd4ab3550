import { from, type ObservableInput, Subject, type Subscriber, takeUntil } from 'rxjs';

/**
 * Passes values on to a subscriber, but not the end: the lock is given back first. Settles when the source has
 * ended, or when nobody listens any more and the source was left.
 */
export function relayObservable(
  source: ObservableInput<unknown>,
  subscriber: Subscriber<unknown>,
): Promise<void> {
  return new Promise((resolve, reject) => {
    // Not `subscriber.add(subscription)`: a source that emits at once must end as soon as enough was taken, while
    // its subscription is not known yet.
    const left = new Subject<void>();
    subscriber.add(() => left.next());
    from(source)
      .pipe(takeUntil(left))
      .subscribe({
        next: (value) => subscriber.next(value),
        error: reject,
        complete: resolve,
      });
  });
}
