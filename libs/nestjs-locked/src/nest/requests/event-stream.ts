import type { ExecutionContext, MessageEvent } from '@nestjs/common';
import { catchError, type Observable, of, throwError } from 'rxjs';
import { isObject } from '../../core/arguments.js';
import { LockError } from '../../core/lock.errors.js';
import { answerLog } from './answer-log.js';
import { headersAreSent, type HttpResponse, sendBody } from './http-response.js';
import { answerTo, DEFAULT_STATUSES, isRetryable, type LockAnswer } from './lock-answer.js';

/** Nest's metadata key of `@Sse` methods. */
const SSE = '__sse__';

export function isEventStream(context: ExecutionContext): boolean {
  return context.getType() === 'http' && Reflect.hasMetadata(SSE, context.getHandler());
}

/**
 * Nest sends the headers of an event stream early, while the call still waits for the lock. From then on no exception
 * filter can answer, and depending on its version, Nest would send the error message, which contains the key. An error
 * status sent earlier would end a browser's `EventSource` for good. So an error after which the client should try again
 * always becomes the last event of the stream, after which an `EventSource` reconnects. Any other error is left to the
 * filters while they can still answer.
 */
export function answersErrors(events: Observable<unknown>, response: object): Observable<unknown> {
  return events.pipe(
    catchError((error: unknown) => {
      const isOurs = error instanceof LockError;
      if (!isOurs || (!isRetryable(error) && !headersAreSent(response))) {
        return throwError(() => error);
      }
      const status = DEFAULT_STATUSES[error.code];
      answerLog.answered(error, status);
      return of(errorEvent(answerTo(error, status)));
    }),
  );
}

function errorEvent(data: LockAnswer): MessageEvent {
  const { retryAfterMs } = data;
  return { type: 'error', data, ...(retryAfterMs === undefined ? {} : { retry: retryAfterMs }) };
}

/** Whether the client understands nothing else, as a browser's `EventSource`. */
export function wantsEventStream(request: unknown): boolean {
  const { headers } = (isObject(request) ? request : {}) as { readonly headers?: unknown };
  return isObject(headers) && Reflect.get(headers, 'accept') === 'text/event-stream';
}

/** Sends a stream of one event, after which an `EventSource` reconnects, as it never does after an error status. */
export function sendErrorEvent(response: HttpResponse, data: LockAnswer): void {
  const { type, retry } = errorEvent(data);
  const body = `event: ${type}\nretry: ${retry}\ndata: ${JSON.stringify(data)}\n\n`;
  sendBody(response.status(200), 'text/event-stream', body);
}
