import { type ArgumentsHost, Catch, type ExceptionFilter, Optional } from '@nestjs/common';
import { type Observable, throwError } from 'rxjs';
import { isObject } from '../core/arguments.js';
import { LockConfigError, LockError, type LockErrorCode } from '../core/lock.errors.js';
import { assertOptions, type OptionTable, withDefaults } from '../core/option.js';
import { describeValue } from '../core/runtime/shown-value.js';
import { answerLog } from './requests/answer-log.js';
import { eventPatternOf } from './requests/event-patterns.js';
import {
  endResponse,
  headersAreSent,
  type HttpResponse,
  sendJson,
} from './requests/http-response.js';
import {
  answerTo,
  DEFAULT_RETRY_AFTER_SECONDS,
  DEFAULT_STATUSES,
  type LockAnswer,
} from './requests/lock-answer.js';
import { sendWsException } from './requests/ws-exception.js';

/** The options of `LockExceptionFilter`. */
export interface LockExceptionFilterOptions {
  /**
   * The HTTP status of each error, from 400 to 599.
   * @default LOCK_NOT_ACQUIRED: 423 (Locked), LOCK_STORE_FAILED and LOCK_ABORTED: 503, every other: 500
   */
  readonly statuses?: Partial<Readonly<Record<LockErrorCode, number>>>;
  /**
   * After how many seconds a client should retry if the lock was not free, Redis did not answer, or the application is
   * shutting down. A whole number. @default 1
   */
  readonly retryAfterSeconds?: number;
}

/**
 * Answers lock errors in the format of the client's transport: somebody else held the lock for the whole wait, Redis
 * did not answer, or the application is shutting down. The other errors of this library are mistakes of the
 * application, logged and answered as an internal error. No answer contains the key.
 *
 * - HTTP: the status of the error, with `Retry-After` and `{ statusCode, code, message }`.
 * - Microservices: the client's Observable fails with `{ code, message, retryAfterMs }`. Events have no answer, so a
 *   warning is logged, at most once a minute; a handler that must not miss an event uses `onBusy` or catches the error.
 * - WebSocket: an `exception` event with the same content.
 * - GraphQL: an error with the same `message`, `extensions.code` and `extensions.retryAfterMs`, and the status in
 *   `extensions.http`; its `cause` is the original error.
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
    assertFilterOptions(options);
    const { statuses, retryAfterSeconds } = withDefaults(FILTER_OPTIONS, options);
    this.#statuses = { ...DEFAULT_STATUSES, ...statuses };
    this.#retryAfterSeconds = retryAfterSeconds;
  }

  /** @throws the error itself for a kind of request that this filter does not know */
  catch(error: LockError, host: ArgumentsHost): Observable<never> | undefined {
    const status = this.#statuses[error.code];
    const answer = answerTo(error, status, this.#retryAfterSeconds);
    const kind = host.getType<string>();
    if (['http', 'rpc', 'ws', 'graphql'].includes(kind)) answerLog.answered(error, status);
    switch (kind) {
      case 'http':
        this.#respond(answer, status, host.switchToHttp().getResponse<HttpResponse>());
        return undefined;
      case 'rpc': {
        const event = eventPatternOf(host.switchToRpc().getContext<object | undefined>());
        if (event !== undefined) answerLog.dropped(error, event);
        return throwError(() => answer);
      }
      case 'ws':
        if (sendWsException(host.switchToWs().getClient<object>(), answer)) return undefined;
        throw error;
      case 'graphql':
        throw this.#graphqlError(answer, status, error);
      default:
        throw error;
    }
  }

  #respond(answer: LockAnswer, statusCode: number, response: HttpResponse): void {
    if (headersAreSent(response)) {
      endResponse(response);
      return;
    }
    const { code, message, retryAfterMs } = answer;
    response.status(statusCode);
    if (retryAfterMs !== undefined) response.header('Retry-After', this.#retryAfter);
    sendJson(response, { statusCode, code, message });
  }

  /** GraphQL servers send the message of any error and its `extensions`. Apollo Server reads and removes `http`. */
  #graphqlError({ message, ...answer }: LockAnswer, status: number, cause: LockError): Error {
    const headers = new Map(
      answer.retryAfterMs === undefined ? [] : [['retry-after', this.#retryAfter]],
    );
    return Object.assign(new Error(message, { cause }), {
      extensions: { ...answer, http: { status, headers } },
    });
  }

  get #retryAfter(): string {
    return String(this.#retryAfterSeconds);
  }
}

const refuse = (problem: string): never => {
  throw new LockConfigError(`Invalid option of LockExceptionFilter: ${problem}`);
};

const FILTER_OPTIONS: OptionTable<LockExceptionFilterOptions> = {
  statuses: {
    check(name, statuses) {
      if (!isObject(statuses)) {
        refuse(
          `${name} is ${describeValue(statuses)}; use an object, such as { LOCK_NOT_ACQUIRED: 409 }`,
        );
      }
      for (const [code, status] of Object.entries(statuses as Record<string, unknown>)) {
        if (!Object.hasOwn(DEFAULT_STATUSES, code)) {
          refuse(
            `${name} has '${code}', which is not the code of a LockError; use ${Object.keys(DEFAULT_STATUSES).join(', ')}`,
          );
        }
        if (!Number.isInteger(status) || (status as number) < 400 || (status as number) > 599) {
          refuse(`${name}.${code} is ${shown(status)}; use an HTTP status from 400 to 599`);
        }
      }
    },
  },
  retryAfterSeconds: {
    default: DEFAULT_RETRY_AFTER_SECONDS,
    check(name, seconds) {
      if (Number.isSafeInteger(seconds) && (seconds as number) >= 0) return;
      refuse(`${name} is ${shown(seconds)}; use a whole number of seconds, 0 or more`);
    },
  },
};

function assertFilterOptions(options: LockExceptionFilterOptions): void {
  if (typeof options !== 'object' || options === null) {
    refuse(`${describeValue(options)} must be an object, such as { retryAfterSeconds: 5 }`);
  }
  assertOptions(FILTER_OPTIONS, options);
}

function shown(value: unknown): string {
  return typeof value === 'number' ? String(value) : describeValue(value);
}
