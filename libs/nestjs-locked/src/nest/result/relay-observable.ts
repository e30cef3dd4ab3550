import { from, type ObservableInput, Subject, type Subscriber, takeUntil } from 'rxjs';

/**
 * Passes values on to a subscriber, but not the end, because the lock is released first. Settles when the source has
 * ended, or when nobody listens any more and the source was left.
 */
export function relayObservable(
  source: ObservableInput<unknown>,
  subscriber: Subscriber<unknown>,
): Promise<void> {
  return new Promise((resolve, reject) => {
    // `subscriber.add(subscription)` would not do: a source that emits at once must end as soon as enough was taken,
    // and its subscription is not known by then.
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
