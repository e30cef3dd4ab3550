import { isObject } from '../../../core/arguments.js';

/** The message of ioredis for commands whose connection has ended, for any reason. */
export const CLOSED = 'Connection is closed.';

/** What ioredis says before the answer of the last sentinel, even if all of them have answered. */
const OF_SENTINELS = /^All sentinels are unreachable.* Last error: /;

/** A server that closes a connection before it has said anything. */
export class ClosingServerError extends Error {
  constructor() {
    super('the server closes the connection');
  }
}

/** Whether the server has closed a connection without an answer. */
export function isClosing(error: unknown): boolean {
  if (error instanceof ClosingServerError) return true;
  return isObject(error) && 'code' in error && error.code === 'ECONNRESET';
}

/** The message of an error, or its code: Node's errors for a host with several addresses have no message. */
export function reasonOf(error: unknown): string {
  if (typeof error !== 'object' || error === null) return String(error);
  const { message, code, library, reason } = error as Partial<Record<string, unknown>>;
  // The messages of OpenSSL name files and lines of its source.
  if (typeof library === 'string' && typeof reason === 'string') return reason;
  if (typeof message === 'string' && message !== '') return message.replace(OF_SENTINELS, '');
  return typeof code === 'string' ? code : 'it does not say why';
}
