import { Catch, type ExceptionFilter, Inject, Injectable, Logger, type Type } from '@nestjs/common';
import { ApplicationConfig } from '@nestjs/core';
import { LockError } from '../../core/lock.errors.js';
import { LOG_CONTEXT } from '../../core/log-context.js';
import { DEFAULT_STATUSES, isRetryable } from '../requests/lock-answer.js';

/** Applications that are watched already, so that several lock modules in one application warn only once. */
const watched = new WeakSet<ApplicationConfig>();

/**
 * Warns once if a lock error reaches Nest's own handler, which answers with an internal error, because no exception
 * filter of the application handles it. Not in gateways, where Nest uses no global filters.
 */
@Injectable()
export class UnansweredErrors {
  /** Nest asks the global filters in reverse order, and this is the first: those of the application come later. */
  constructor(@Inject(ApplicationConfig) application: ApplicationConfig) {
    if (watched.has(application)) return;
    watched.add(application);
    application.addGlobalFilter(new (lastFilter())());
  }
}

/** A filter that Nest asks whether it handles an error, which it never does: the handling stays as it was. */
function lastFilter(): Type<ExceptionFilter> {
  let hasWarned = false;
  const nothing = {
    [Symbol.hasInstance](error: unknown): boolean {
      if (error instanceof LockError && !hasWarned) {
        hasWarned = true;
        warn(error);
      }
      return false;
    },
  };

  @Catch(nothing as unknown as Type)
  class LastFilter implements ExceptionFilter {
    catch(): void {
      // Nest never calls it.
    }
  }
  return LastFilter;
}

function warn(error: LockError): void {
  const answer = `${DEFAULT_STATUSES[error.code]}${isRetryable(error) ? ' with Retry-After' : ''}`;
  new Logger(LOG_CONTEXT).warn(
    `No exception filter handles lock errors, so a client got an internal error for ${error.code}; add { provide: APP_FILTER, useClass: LockExceptionFilter } to the providers of the root module (over HTTP, it answers ${answer}, and never the key)`,
  );
}
