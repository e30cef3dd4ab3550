/** The error for a connection on which commands were not answered. */
export class SilenceError extends Error {
  constructor(silentMs: number) {
    super(`Redis has said nothing for ${silentMs} ms`);
  }
}

/**
 * Whether an error adds to what is known of an outage; continued silence does not.
 * @param isSilent whether a command is known to be unanswered
 */
export function saysMoreThan(error: unknown, known: unknown, isSilent: boolean): boolean {
  return !isSilence(error) || !(known === undefined ? isSilent : isSilence(known));
}

function isSilence(error: unknown): boolean {
  return (
    error instanceof SilenceError || (error instanceof Error && error.cause instanceof SilenceError)
  );
}
