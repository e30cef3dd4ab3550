import { type ArgumentsHost, Catch, type ExceptionFilter, Optional } from '@nestjs/common';
import { type Observable, throwError } from 'rxjs';
import { LockError, type LockErrorCode } from '../core/lock.errors.js';
import {
  checkedFilterOptions,
  type LockExceptionFilterOptions,
} from './lock-exception-filter.options.js';
import { answerLog } from './requests/answer-log.js';
import { eventPatternOf } from './requests/event-patterns.js';
import { sendErrorEvent, wantsEventStream } from './requests/event-stream.js';
import { graphqlError } from './requests/graphql-error.js';
import { grpcAnswer, grpcCallOf } from './requests/grpc-call.js';
import {
  endResponse,
  headersAreSent,
  type HttpResponse,
  sendBody,
} from './requests/http-response.js';
import { answerTo, DEFAULT_STATUSES, type LockAnswer } from './requests/lock-answer.js';
import { sendWsException } from './requests/ws-exception.js';

/**
 * Answers lock errors in the format of the client's transport: somebody else held the lock for the whole wait, Redis
 * did not answer, or the application is shutting down. The other errors of this library are mistakes of the
 * application, logged and answered as an internal error. No answer contains the key. If Redis fails once the work under
 * the lock has begun (`LockStoreError.workBegan`), the client is not asked to try again.
 *
 * - HTTP: the status of the error, with `Retry-After` and `{ statusCode, code, message }`. A request that accepts only
 *   `text/event-stream` gets an event of type `error` with `retry` instead, if it may succeed later: an `EventSource`
 *   never reconnects after an error status.
 * - Microservices: the client's Observable fails with `{ code, message, retryAfterMs }`. Events have no answer, so a
 *   warning is logged, at most once a minute; a handler that must not miss an event uses `onBusy` or catches the error.
 * - gRPC: ABORTED if the lock was not free, UNAVAILABLE if Redis did not answer before the work began, or the
 *   application is shutting down, INVALID_ARGUMENT for a wrong key, otherwise INTERNAL; with the metadata
 *   `lock-error-code` and, if the call may succeed later, `grpc-retry-pushback-ms`.
 * - WebSocket: an `exception` event with the same content.
 * - GraphQL: an error with the same `message`, `extensions.code` and `extensions.retryAfterMs`; its `cause` is the
 *   original error. Apollo Server and Mercurius also send `Retry-After`; Apollo Server can send the status.
 *
 * @example providers: [{ provide: APP_FILTER, useClass: LockExceptionFilter }]
 * @example @UseFilters(LockExceptionFilter) // gateways: Nest does not use global filters there
 * @throws LockConfigError for a wrong option
 */
@Catch(LockError)
export class LockExceptionFilter implements ExceptionFilter<LockError> {
  readonly #statuses: Readonly<Record<LockErrorCode, number>>;
  readonly #retryAfterSeconds: number;

  constructor(@Optional() options: LockExceptionFilterOptions = {}) {
    const { statuses, retryAfterSeconds } = checkedFilterOptions(options);
    this.#statuses = { ...DEFAULT_STATUSES, ...statuses };
    this.#retryAfterSeconds = retryAfterSeconds;
  }

  /** @throws the error itself for a kind of request that this filter does not know */
  catch(error: LockError, host: ArgumentsHost): Observable<unknown> | undefined {
    const status = this.#statuses[error.code];
    const answer = answerTo(error, status, this.#retryAfterSeconds);
    const kind = host.getType<string>();
    if (['http', 'rpc', 'ws', 'graphql'].includes(kind)) answerLog.answered(error, status);
    switch (kind) {
      case 'http':
        this.#respond(answer, status, host);
        return undefined;
      case 'rpc': {
        const event = eventPatternOf(host.switchToRpc().getContext<object | undefined>());
        if (event !== undefined) answerLog.dropped(error, event);
        const call = grpcCallOf(host);
        return call === undefined ? throwError(() => answer) : grpcAnswer(answer, call, host);
      }
      case 'ws':
        if (sendWsException(host.switchToWs().getClient<object>(), answer)) return undefined;
        throw error;
      case 'graphql':
        throw graphqlError(answer, status, error, host);
      default:
        throw error;
    }
  }

  #respond(answer: LockAnswer, statusCode: number, host: ArgumentsHost): void {
    const response = host.switchToHttp().getResponse<HttpResponse>();
    if (headersAreSent(response)) {
      endResponse(response);
      return;
    }
    const { code, message, retryAfterMs } = answer;
    if (retryAfterMs !== undefined && wantsEventStream(host.switchToHttp().getRequest())) {
      sendErrorEvent(response, answer);
      return;
    }
    response.status(statusCode);
    if (retryAfterMs !== undefined) {
      response.header('Retry-After', String(this.#retryAfterSeconds));
    }
    sendBody(response, 'application/json', { statusCode, code, message });
  }
}
