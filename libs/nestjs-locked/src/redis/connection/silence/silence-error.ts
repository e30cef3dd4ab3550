/** Nothing has come back on a connection, although something was sent. */
export class SilenceError extends Error {
  constructor(silentMs: number) {
    super(`Redis has said nothing for ${silentMs} ms`);
  }
}

/**
 * Whether an error is worth telling after what is known of an outage. That the server is still silent is not.
 * @param isSilent it is known that a command was not answered
 */
export function saysMoreThan(error: unknown, known: unknown, isSilent: boolean): boolean {
  return !isSilence(error) || !(known === undefined ? isSilent : isSilence(known));
}

function isSilence(error: unknown): boolean {
  return (
    error instanceof SilenceError || (error instanceof Error && error.cause instanceof SilenceError)
  );
}
