/** What can be learned from an error that Redis answered, or with which a command ended. */

/** Whether Redis has answered. If not, the connection was lost, and nobody knows what became of the command. */
export function isReplyError(error: unknown): error is Error {
  return error instanceof Error && error.name === 'ReplyError';
}

/**
 * The server is not the master, or not any more, and did not run the command. Redis 6.2 says so in the middle of the
 * message.
 */
export function isFromReplica(error: unknown): boolean {
  return isReplyError(error) && /READONLY|MASTERDOWN/.test(error.message);
}

export function isUnknownScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOSCRIPT');
}

/** The server is too old for it, or not a Redis. */
export function isUnknownCommand(error: unknown): boolean {
  return isReplyError(error) && /unknown command/i.test(error.message);
}

/** Only a node of a Cluster answers like this, and it has not run the command. */
export function isFromCluster(error: unknown): boolean {
  return (
    error instanceof Error && /^(MOVED|ASK|TRYAGAIN|CLUSTERDOWN|CROSSSLOT)\b/.test(error.message)
  );
}

export function isNotInCluster(error: unknown): boolean {
  return error instanceof Error && error.message.includes('cluster support disabled');
}

/** The probe answers like this when TIME, which all fencing numbers and leases come from, answers zero in a script. */
export function hasNoTime(error: unknown): boolean {
  return error instanceof Error && error.message.includes('NOTIME');
}

/** The probe gets this answer where PUBLISH is in truth SPUBLISH: all else that it uses is in the slot of its keys. */
export function publishesToSlot(error: unknown): boolean {
  return error instanceof Error && /do not hash to the same slot|non local key/.test(error.message);
}

/** Scripts say it in words of their own, and these differ with the version: of commands, of keys and of channels. */
export function lacksRights(error: unknown): boolean {
  return (
    error instanceof Error &&
    /NOPERM|No permission|user executing the script can't|can't run this command/i.test(
      error.message,
    )
  );
}

/** The server refuses every write, whoever asks: its memory is full, or it cannot save what it has. */
export function refusesWrites(error: unknown): boolean {
  return isReplyError(error) && /\b(?:OOM|MISCONF)\b/.test(error.message);
}

/** The server refuses every write, because fewer replicas follow it than min-replicas-to-write asks for. */
export function missesReplicas(error: unknown): boolean {
  return isReplyError(error) && /\bNOREPLICAS\b/.test(error.message);
}

/** A script or a function of somebody else blocks the server, which refuses everything until that has ended. */
export function isBlocked(error: unknown): boolean {
  return isReplyError(error) && /^-?BUSY\b/.test(error.message);
}

/** The server refuses us or everybody something, and neither a single key nor the node of a cluster is the reason. */
export function isRefusal(error: unknown): boolean {
  if (lacksRights(error)) return true;
  return (
    isReplyError(error) &&
    !isFromCluster(error) &&
    !hasStoppedInMovingSlot(error) &&
    !hasWrongType(error)
  );
}

/** A script of ours has stopped half-way: its slot is moving to another node, and a key is not there any more. */
function hasStoppedInMovingSlot(error: Error): boolean {
  return error.message.includes('non local key');
}

/** The key in Redis is not a string. */
export function hasWrongType(error: unknown): boolean {
  return isReplyError(error) && error.message.includes('WRONGTYPE');
}

export function refusesUser(error: unknown): boolean {
  return error instanceof Error && /WRONGPASS|NOAUTH/i.test(error.message);
}
