import type { ExecutionContext } from '@nestjs/common';
import { catchError, type Observable, of, throwError } from 'rxjs';
import { LockError } from '../../core/lock.errors.js';
import { answerLog } from './answer-log.js';
import { answerTo, DEFAULT_STATUSES } from './lock-answer.js';

/** Nest's metadata key of `@Sse` methods. */
const SSE = '__sse__';

export function isEventStream(context: ExecutionContext): boolean {
  return context.getType() === 'http' && Reflect.hasMetadata(SSE, context.getHandler());
}

/**
 * Nest sends the headers of an event stream early, while the call still waits for the lock. From then on no exception
 * filter can answer, and depending on its version, Nest would send the error message, which contains the key. An error
 * status sent earlier would end a browser's `EventSource` for good. So a lock error always becomes the last event of
 * the stream, of type `error`, after which an `EventSource` reconnects.
 */
export function answersErrors(events: Observable<unknown>): Observable<unknown> {
  return events.pipe(
    catchError((error: unknown) => {
      if (!(error instanceof LockError)) return throwError(() => error);
      const status = DEFAULT_STATUSES[error.code];
      answerLog.answered(error, status);
      const data = answerTo(error, status);
      return of({ type: 'error', data, retry: data.retryAfterMs });
    }),
  );
}
