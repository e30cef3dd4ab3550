/** The command line cannot be carried out as it is written; the message says what to write. */
export class UsageError extends Error {}
