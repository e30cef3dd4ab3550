import { Catch, HttpStatus, type ArgumentsHost, type ExceptionFilter } from '@nestjs/common';
import { LockNotAcquiredError, LockStoreError } from '../core/lock.errors.js';

/** What the responses of Express and Fastify have in common. */
interface HttpResponse {
  status(code: number): this;
  header(name: string, value: string): this;
  send(body: object): unknown;
}

export interface LockExceptionFilterOptions {
  /** The status when somebody else holds the lock. @default 423 (Locked) */
  readonly busyStatus?: number;
  /** When a client should try again, in seconds, for both kinds. @default 1 */
  readonly retryAfterSeconds?: number;
}

/**
 * Answers 423 when the lock was held by somebody else for the whole wait, and 503 when Redis did not answer, both
 * with `Retry-After`. Everything else goes its usual way.
 *
 * @example providers: [{ provide: APP_FILTER, useValue: new LockExceptionFilter() }]
 */
@Catch(LockNotAcquiredError, LockStoreError)
export class LockExceptionFilter implements ExceptionFilter<LockNotAcquiredError | LockStoreError> {
  readonly #busyStatus: number;
  readonly #retryAfterSeconds: number;

  constructor({ busyStatus = 423, retryAfterSeconds = 1 }: LockExceptionFilterOptions = {}) {
    this.#busyStatus = busyStatus;
    this.#retryAfterSeconds = retryAfterSeconds;
  }

  catch(error: LockNotAcquiredError | LockStoreError, host: ArgumentsHost): void {
    if (host.getType() !== 'http') throw error;
    const isBusy = error instanceof LockNotAcquiredError;
    const statusCode = isBusy ? this.#busyStatus : HttpStatus.SERVICE_UNAVAILABLE;
    const message = isBusy
      ? `'${error.key}' is in use, try again`
      : 'Locks are unavailable, try again';
    host
      .switchToHttp()
      .getResponse<HttpResponse>()
      .status(statusCode)
      .header('Retry-After', String(this.#retryAfterSeconds))
      .send({ statusCode, code: error.code, message });
  }
}
