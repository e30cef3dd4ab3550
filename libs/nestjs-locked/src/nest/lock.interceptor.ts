import {
  type CallHandler,
  type ExecutionContext,
  Inject,
  Injectable,
  mixin,
  type NestInterceptor,
  type Type,
} from '@nestjs/common';
import { defaultIfEmpty, type Observable } from 'rxjs';
import { LOCK_RUNNER } from '../core/engine/lock-runner.js';
import { KeyTemplate } from '../core/keys/key-template.js';
import { LockConfigError } from '../core/lock.errors.js';
import type { Keys } from '../core/lock.options.js';
import { withSignal } from '../core/resolved.options.js';
import { lockServiceToken } from './decorator/lock-service.token.js';
import { checkedLockedOptions, type LockedOptions } from './decorator/locked.options.js';
import type { LockService } from './lock.service.js';
import { LOCKED_RESULT } from './result/locked-result.js';

/** Builds the key from anything that the request has. */
export type RequestKey = (request: never, context: ExecutionContext) => Keys;

/**
 * Runs a route under a lock that is taken before the pipes, and before the interceptors that come after this one, such
 * as one that opens a transaction. The lock lasts until the response is ready.
 *
 * The key is built from the request as it came: `<params.id>` is the text in the URL, not yet checked or converted. So
 * '042' and '42' are two keys, and a `@Locked` further inside, which sees the converted value, may use another key.
 *
 * With `onBusy: 'skip'`, a busy route answers with success and an empty body. With a function, its result is the body.
 *
 * @example @UseInterceptors(LockInterceptor('stock:<params.id>'))
 * @throws LockConfigError for a wrong template or option
 */
export function LockInterceptor(
  key: string | RequestKey,
  options: Omit<LockedOptions, 'returns'> = {},
): Type<NestInterceptor> {
  const label = `LockInterceptor(${typeof key === 'string' ? `'${key}'` : 'function'})`;
  const { service, ofCalls } = checkedLockedOptions(options, label);
  const keysOf = typeof key === 'string' ? fromTemplate(key) : key;
  const { onBusy } = ofCalls;

  @Injectable()
  class KeyedLockInterceptor implements NestInterceptor {
    constructor(@Inject(lockServiceToken(service)) private readonly locks: LockService) {}

    intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
      if (context.getType() !== 'http') {
        throw new LockConfigError(
          `Cannot lock with ${label}: it is for HTTP routes, this is '${context.getType()}'; use @Locked on the handler`,
        );
      }
      const keys = keysOf(context.switchToHttp().getRequest<never>(), context);
      const result = LOCKED_RESULT.observable({
        label,
        enter: (work, signal) =>
          this.locks[LOCK_RUNNER].withLock(
            keys,
            signal === undefined ? ofCalls : withSignal(ofCalls, signal),
            work,
            label,
          ),
        run: () => next.handle(),
      }) as Observable<unknown>;
      // Nest fails a request whose Observable ends without a value.
      return onBusy === undefined ? result : result.pipe(defaultIfEmpty(undefined));
    }
  }
  return mixin(KeyedLockInterceptor);
}

function fromTemplate(text: string): (request: object) => Keys {
  const template = new KeyTemplate(text);
  return (request) => template.render((root) => (request as Record<string, unknown>)[root]);
}
