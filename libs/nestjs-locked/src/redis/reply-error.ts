/** What an error says that Redis answered, or with which a command ended. */

/** Redis has answered; otherwise the connection was lost, and nobody knows what became of the command. */
export function isReplyError(error: unknown): error is Error {
  return error instanceof Error && error.name === 'ReplyError';
}

/** Scripts of Redis 6.2 say so in the middle of the message. */
export function isReadOnly(error: unknown): boolean {
  return isReplyError(error) && error.message.includes('READONLY');
}

export function isUnknownScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOSCRIPT');
}

/** Only a node of a Cluster answers like this. */
export function isFromCluster(error: unknown): boolean {
  return error instanceof Error && /^(MOVED|ASK|CLUSTERDOWN|CROSSSLOT)\b/.test(error.message);
}

export function lacksRights(error: unknown): boolean {
  return (
    error instanceof Error && /NOPERM|No permission|can't run this command/i.test(error.message)
  );
}

export function refusesUser(error: unknown): boolean {
  return error instanceof Error && /WRONGPASS|NOAUTH/i.test(error.message);
}
