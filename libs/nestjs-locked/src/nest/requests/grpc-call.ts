import type { ArgumentsHost } from '@nestjs/common';
import { type Observable, of, throwError } from 'rxjs';
import { isObject } from '../../core/arguments.js';
import type { LockErrorCode } from '../../core/lock.errors.js';
import type { LockAnswer } from './lock-answer.js';

/** Headers or trailers of gRPC. */
interface Metadata {
  set(name: string, value: string): void;
}

/** A call as grpc-js hands it to Nest, which is an EventEmitter. */
export interface GrpcCall {
  readonly cancelled: boolean;
  readonly metadata: Metadata;
  once(event: 'cancelled', listener: () => void): unknown;
  emit(event: 'error', status: object): unknown;
}

/** The call comes after its data and metadata, or first if the handler reads the call itself. Undefined elsewhere. */
export function grpcCallOf(host: ArgumentsHost): GrpcCall | undefined {
  return host.getArgs<unknown[]>().find(isCall);
}

function isCall(value: unknown): value is GrpcCall {
  const { cancelled, metadata, once } = isObject(value) ? (value as Partial<GrpcCall>) : {};
  return typeof cancelled === 'boolean' && isObject(metadata) && typeof once === 'function';
}

/** The codes of google.rpc.Code: clients repeat ABORTED and UNAVAILABLE, and no other. */
const [INVALID_ARGUMENT, ABORTED, INTERNAL, UNAVAILABLE] = [3, 10, 13, 14] as const;

const CODES: Readonly<Record<LockErrorCode, number>> = {
  LOCK_NOT_ACQUIRED: ABORTED,
  LOCK_QUEUE_FULL: UNAVAILABLE,
  LOCK_DEADLOCK: ABORTED,
  LOCK_STORE_FAILED: UNAVAILABLE,
  LOCK_ABORTED: UNAVAILABLE,
  LOCK_KEY_INVALID: INVALID_ARGUMENT,
  LOCK_LOST: INTERNAL,
  LOCK_NOT_HELD: INTERNAL,
  LOCK_NOT_ADOPTED: INTERNAL,
  LOCK_FENCED: INTERNAL,
  LOCK_COMMIT_UNKNOWN: INTERNAL,
  LOCK_IN_TRANSACTION: INTERNAL,
  LOCK_CONFIG_INVALID: INTERNAL,
};

/** What an exception filter returns, so that Nest and grpc-js answer a call with the status of an error. */
export function grpcAnswer(
  answer: LockAnswer,
  call: GrpcCall,
  host: ArgumentsHost,
): Observable<unknown> {
  const status = statusOf(answer, call);
  if (host.getArgByIndex(0) !== call) return throwError(() => status);
  // A handler of `@GrpcStreamCall` answers the call itself; of an error, Nest would make an unhandled rejection.
  call.emit('error', status);
  return of(undefined);
}

function statusCodeOf(code: LockErrorCode, isRetryable: boolean): number {
  const status = CODES[code];
  return status === UNAVAILABLE && !isRetryable ? INTERNAL : status;
}

/** The time to retry is where the retry policy of a client looks for it. */
function statusOf({ code, message, retryAfterMs }: LockAnswer, call: GrpcCall): object {
  const metadata = new (call.metadata.constructor as new () => Metadata)(); // grpc-js is optional
  metadata.set('lock-error-code', code);
  if (retryAfterMs !== undefined) metadata.set('grpc-retry-pushback-ms', String(retryAfterMs));
  const status = statusCodeOf(code, retryAfterMs !== undefined);
  const details = status === INVALID_ARGUMENT ? 'Invalid Argument' : message;
  return { code: status, message: details, details, metadata };
}
