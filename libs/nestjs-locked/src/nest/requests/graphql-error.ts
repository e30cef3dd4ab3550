import type { ArgumentsHost } from '@nestjs/common';
import type { LockError } from '../../core/lock.errors.js';
import type { LockAnswer } from './lock-answer.js';
import { graphqlContext } from './request-roots.js';

const RETRY_AFTER = 'retry-after';

/** Apollo Server reads it from the extensions and removes it. Elsewhere, such as over WebSockets, nothing is sent. */
class HttpHead {
  constructor(
    readonly status: number,
    readonly headers: ReadonlyMap<string, string>,
  ) {}

  toJSON(): undefined {
    return undefined;
  }
}

/** The context of Mercurius. There is no reply to a message over WebSockets. */
interface MercuriusContext {
  readonly app?: { readonly graphql?: unknown };
  readonly reply?: { header(name: string, value: string): unknown };
}

/** GraphQL servers send the message of any error and its `extensions`. */
export function graphqlError(
  { message, ...answer }: LockAnswer,
  status: number,
  cause: LockError,
  host: ArgumentsHost,
): Error {
  const { retryAfterMs } = answer;
  const retryAfter = retryAfterMs === undefined ? undefined : String(retryAfterMs / 1_000);
  const { app, reply } = graphqlContext(host) as MercuriusContext;
  const error = new Error(message, { cause });
  if (typeof app?.graphql === 'function') {
    if (retryAfter !== undefined) reply?.header(RETRY_AFTER, retryAfter);
    return Object.assign(error, { extensions: answer });
  }
  const http = new HttpHead(
    status,
    new Map(retryAfter === undefined ? [] : [[RETRY_AFTER, retryAfter]]),
  );
  return Object.assign(error, { extensions: { ...answer, http } });
}
