/** What went wrong, in one word: the `code` of the locks or of PostgreSQL, if there is one. */
export function errorCode(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if ('code' in error && typeof error.code === 'string') return error.code;
  // The pool of pg has no code for it.
  if (error.message.includes('timeout exceeded when trying to connect')) return 'no connection';
  return error.name;
}
