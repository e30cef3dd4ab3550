import type { ExecutionContext } from '@nestjs/common';
import { catchError, type Observable, of, throwError } from 'rxjs';
import { LockError } from '../../core/lock.errors.js';
import { answerLog } from './answer-log.js';
import { headersAreSent } from './http-response.js';
import { answerTo, DEFAULT_STATUSES } from './lock-answer.js';

/** Where Nest marks the methods with `@Sse`. */
const SSE = '__sse__';

export function isEventStream(context: ExecutionContext): boolean {
  return context.getType() === 'http' && Reflect.hasMetadata(SSE, context.getHandler());
}

/**
 * Nest sends the headers of an event stream soon, while the lock is still waited for. From then on no exception
 * filter can answer, and depending on its version, Nest would send the message of the error, which has the key in it.
 * So the error of a lock becomes the last event of the stream, of the type `error`.
 */
export function answersLateErrors(
  events: Observable<unknown>,
  context: ExecutionContext,
): Observable<unknown> {
  return events.pipe(
    catchError((error: unknown) => {
      const response = context.switchToHttp().getResponse<object>();
      if (!(error instanceof LockError) || !headersAreSent(response)) {
        return throwError(() => error);
      }
      const status = DEFAULT_STATUSES[error.code];
      answerLog.answered(error, status);
      const data = answerTo(error, status);
      return of({ type: 'error', data, retry: data.retryAfterMs });
    }),
  );
}
