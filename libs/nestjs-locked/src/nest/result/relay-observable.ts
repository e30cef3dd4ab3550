import {
  finalize,
  from,
  type ObservableInput,
  Subject,
  type Subscriber,
  takeUntil,
  tap,
} from 'rxjs';

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
    // and its subscription is not known by then.
    const left = new Subject<void>();
    subscriber.add(() => {
      if (!mayWorkUnseen) left.next();
    });
    from(source)
      .pipe(
        // It also makes a subscription of its own for the source, which is left before the end is told: a locked call
        // inside ends before this one, whose hold it may have joined.
        tap(() => {
          mayWorkUnseen = false;
        }),
        takeUntil(left),
        finalize(resolve),
      )
      .subscribe({
        next: (value) => {
          if (subscriber.closed) left.next();
          else subscriber.next(value);
        },
        error: reject,
      });
  });
}

function isPromiseLike(source: unknown): boolean {
  return typeof (source as Partial<PromiseLike<unknown>> | undefined)?.then === 'function';
}
