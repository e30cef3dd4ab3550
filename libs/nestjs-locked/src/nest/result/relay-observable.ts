import { from, type ObservableInput, ReplaySubject, type Subscriber, takeUntil } from 'rxjs';

/**
 * Passes values on to a subscriber, but not the end, because the lock is released first. Settles when the source has
 * ended, or when nobody listens any more and the source was left.
 *
 * @param staysUntilFirstValue whether a source whose subscriber leaves before its first value is left only after that,
 * because it may be work that nobody can stop. For a Promise it always is
 */
export function relayObservable(
  source: ObservableInput<unknown>,
  subscriber: Subscriber<unknown>,
  staysUntilFirstValue = false,
): Promise<void> {
  return new Promise((resolve, reject) => {
    let mayWorkUnseen = staysUntilFirstValue || isPromiseLike(source);
    // `subscriber.add(subscription)` would not do: a source that emits at once must end as soon as enough was taken,
    // and its subscription is not known by then. Whoever left before, while the source was made, has left as well.
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

function isPromiseLike(source: unknown): boolean {
  return typeof (source as Partial<PromiseLike<unknown>> | undefined)?.then === 'function';
}
