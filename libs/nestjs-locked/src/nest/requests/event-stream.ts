import type { ExecutionContext } from '@nestjs/common';
import { catchError, type Observable, of, throwError } from 'rxjs';
import { LockError } from '../../core/lock.errors.js';
import { answerLog } from './answer-log.js';
import { answerTo, DEFAULT_STATUSES } from './lock-answer.js';

/** Where Nest marks the methods with `@Sse`. */
const SSE = '__sse__';

export function isEventStream(context: ExecutionContext): boolean {
  return context.getType() === 'http' && Reflect.hasMetadata(SSE, context.getHandler());
}

/**
 * Nest sends the headers of an event stream soon, while the lock is still waited for. From then on no exception filter
 * can answer, and depending on its version, Nest would send the message of the error, which has the key in it. A status
 * that is sent before would end a browser's `EventSource` for good. So the error of a lock always becomes the last
 * event of the stream, of the type `error`, after which an `EventSource` tries again.
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
