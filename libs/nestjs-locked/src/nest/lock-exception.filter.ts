import {
  Catch,
  HttpStatus,
  Optional,
  type ArgumentsHost,
  type ExceptionFilter,
} from '@nestjs/common';
import { LockAbortedError, LockNotAcquiredError, LockStoreError } from '../core/lock.errors.js';

type Refusal = LockNotAcquiredError | LockStoreError | LockAbortedError;

/** What the responses of Express and Fastify have in common. */
interface HttpResponse {
  status(code: number): this;
  header(name: string, value: string): this;
  send(body: object): unknown;
}

export interface LockExceptionFilterOptions {
  /** The status when somebody else holds the lock. @default 423 (Locked) */
  readonly busyStatus?: number;
  /** When a client should try again, in seconds, for all of them. @default 1 */
  readonly retryAfterSeconds?: number;
}

/**
 * Answers 423 when the lock was held by somebody else for the whole wait, and 503 when Redis did not answer or the
 * wait was ended because the application shuts down, all with `Retry-After`. Everything else goes its usual way.
 *
 * @example providers: [{ provide: APP_FILTER, useClass: LockExceptionFilter }]
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

  catch(error: Refusal, host: ArgumentsHost): void {
    if (host.getType() !== 'http') throw error;
    const isBusy = error instanceof LockNotAcquiredError;
    const statusCode = isBusy ? this.#busyStatus : HttpStatus.SERVICE_UNAVAILABLE;
    // Without the key: it may say more about others than a client should know.
    const message = isBusy ? 'In use, try again' : 'Locks are unavailable, try again';
    host
      .switchToHttp()
      .getResponse<HttpResponse>()
      .status(statusCode)
      .header('Retry-After', String(this.#retryAfterSeconds))
      .send({ statusCode, code: error.code, message });
  }
}
