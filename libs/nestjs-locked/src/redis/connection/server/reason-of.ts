/** What ioredis says of commands whose connection has ended, whatever has ended it. */
export const CLOSED = 'Connection is closed.';

/** What an error says. Node's errors for a host with several addresses have a code but no message. */
export function reasonOf(error: unknown): string {
  if (typeof error !== 'object' || error === null) return String(error);
  const { message, code } = error as { message?: unknown; code?: unknown };
  if (typeof message === 'string' && message !== '') return message;
  return typeof code === 'string' ? code : 'it does not say why';
}
