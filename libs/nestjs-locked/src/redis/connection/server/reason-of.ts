/** The message of ioredis for commands whose connection has ended, for any reason. */
export const CLOSED = 'Connection is closed.';

/** The message of an error, or its code: Node's errors for a host with several addresses have no message. */
export function reasonOf(error: unknown): string {
  if (typeof error !== 'object' || error === null) return String(error);
  const { message, code } = error as { message?: unknown; code?: unknown };
  if (typeof message === 'string' && message !== '') return message;
  return typeof code === 'string' ? code : 'it does not say why';
}
