import {
  type ArgumentsHost,
  Catch,
  type ExceptionFilter,
  HttpStatus,
  Optional,
} from '@nestjs/common';
import { type Observable, throwError } from 'rxjs';
import { LockAbortedError, LockNotAcquiredError, LockStoreError } from '../core/lock.errors.js';
import { sendWsException } from './ws-exception.js';

type Refusal = LockNotAcquiredError | LockStoreError | LockAbortedError;

/** What the responses of Express and Fastify have in common. */
interface HttpResponse {
  status(code: number): this;
  header(name: string, value: string): this;
  send(body: object): unknown;
}

/** What a client that does not speak HTTP is told. */
interface Answer {
  readonly code: Refusal['code'];
  readonly message: string;
  readonly retryAfterMs: number;
}

/** What `LockExceptionFilter` may be told. */
export interface LockExceptionFilterOptions {
  /** The status when somebody else holds the lock. @default 423 (Locked) */
  readonly busyStatus?: number;
  /** After how many seconds a client should try again, in all these cases. @default 1 */
  readonly retryAfterSeconds?: number;
}

/**
 * Answers when somebody else held the lock for the whole wait, when Redis did not answer, and when the wait was ended
 * because the application shuts down. Every other error goes its usual way. No answer contains the key.
 *
 * - HTTP: 423 or 503, with `Retry-After`.
 * - Microservices: the client's Observable fails with `{ code, message, retryAfterMs }`. Events have no answer, so a
 *   handler that must not miss one uses `onBusy` or catches the error.
 * - WebSocket: an `exception` event with the same content.
 * - GraphQL: an error with the same `message`, `extensions.code` and `extensions.retryAfterMs`; its `cause` is the
 *   original error.
 *
 * @example providers: [{ provide: APP_FILTER, useClass: LockExceptionFilter }]
 * @example @UseFilters(LockExceptionFilter) // gateways: Nest does not use global filters there
 */
@Catch(LockNotAcquiredError, LockStoreError, LockAbortedError)
export class LockExceptionFilter implements ExceptionFilter<Refusal> {
  readonly #busyStatus: number;
  readonly #retryAfterSeconds: number;

  constructor(@Optional() options: LockExceptionFilterOptions = {}) {
    const { busyStatus = 423, retryAfterSeconds = 1 } = options;
    this.#busyStatus = busyStatus;
    this.#retryAfterSeconds = retryAfterSeconds;
  }

  /** @throws the error itself if Nest knows a kind of request that we do not know */
  catch(error: Refusal, host: ArgumentsHost): Observable<never> | undefined {
    const answer = this.#answerTo(error);
    switch (host.getType<string>()) {
      case 'http':
        this.#respond(answer, host.switchToHttp().getResponse<HttpResponse>());
        return undefined;
      case 'rpc':
        return throwError(() => answer);
      case 'ws':
        if (sendWsException(host.switchToWs().getClient<object>(), answer)) return undefined;
        throw error;
      case 'graphql':
        throw graphqlError(answer, error);
      default:
        throw error;
    }
  }

  #answerTo({ code }: Refusal): Answer {
    return {
      code,
      // The key is left out, because it may say more about others than a client should know.
      message:
        code === 'LOCK_NOT_ACQUIRED' ? 'In use, try again' : 'Locks are unavailable, try again',
      retryAfterMs: this.#retryAfterSeconds * 1_000,
    };
  }

  #respond({ code, message }: Answer, response: HttpResponse): void {
    const statusCode =
      code === 'LOCK_NOT_ACQUIRED' ? this.#busyStatus : HttpStatus.SERVICE_UNAVAILABLE;
    response
      .status(statusCode)
      .header('Retry-After', String(this.#retryAfterSeconds))
      .send({ statusCode, code, message });
  }
}

/** GraphQL servers show the message of any error, and take `extensions` over. */
function graphqlError({ message, code, retryAfterMs }: Answer, cause: Refusal): Error {
  return Object.assign(new Error(message, { cause }), { extensions: { code, retryAfterMs } });
}
