/** Classifies errors that Redis answered, or with which a command ended. */

/** Whether Redis has answered. If not, the connection was lost, and the outcome of the command is unknown. */
export function isReplyError(error: unknown): error is Error {
  return error instanceof Error && error.name === 'ReplyError';
}

/**
 * Whether the server is not, or no longer, the master, and did not run the command. Redis 6.2 has this in the middle of
 * the message.
 */
export function isFromReplica(error: unknown): boolean {
  return isReplyError(error) && /READONLY|MASTERDOWN/.test(error.message);
}

export function isUnknownScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOSCRIPT');
}

/** Whether the server is too old for the command, or not Redis. */
export function isUnknownCommand(error: unknown): boolean {
  return isReplyError(error) && /unknown command/i.test(error.message);
}

/** Whether a node of a Cluster answered this without running the command. */
export function isFromCluster(error: unknown): boolean {
  return (
    error instanceof Error && /^(MOVED|ASK|TRYAGAIN|CLUSTERDOWN|CROSSSLOT)\b/.test(error.message)
  );
}

/** Whether something in front of several servers refuses a command because they would share it. */
export function isOfSeveralSlots(error: unknown): boolean {
  return isReplyError(error) && /CROSSSLOT|same slot/i.test(error.message);
}

export function isNotInCluster(error: unknown): boolean {
  return error instanceof Error && error.message.includes('cluster support disabled');
}

/** Whether the probe found that TIME, the source of all fencing numbers and leases, returns zero in a script. */
export function hasNoTime(error: unknown): boolean {
  return error instanceof Error && error.message.includes('NOTIME');
}

/** Whether PUBLISH behaves like SPUBLISH: everything else in the probe is in the slot of its keys. */
export function publishesToSlot(error: unknown): boolean {
  return error instanceof Error && /do not hash to the same slot|non local key/.test(error.message);
}

/** Scripts report missing rights to commands, keys and channels in different words, which vary with the version. */
export function lacksRights(error: unknown): boolean {
  return (
    error instanceof Error &&
    /NOPERM|No permission|user executing the script can't|can't run this command/i.test(
      error.message,
    )
  );
}

/** Whether the server refuses all writes because its memory is full or it cannot save its data. */
export function refusesWrites(error: unknown): boolean {
  return isReplyError(error) && /\b(?:OOM|MISCONF)\b/.test(error.message);
}

/** Whether the server refuses all writes because it has fewer replicas than min-replicas-to-write requires. */
export function missesReplicas(error: unknown): boolean {
  return isReplyError(error) && /\bNOREPLICAS\b/.test(error.message);
}

/** Whether another client's script or function blocks the server, which refuses everything until that has ended. */
export function isBlocked(error: unknown): boolean {
  return isReplyError(error) && /^-?BUSY\b/.test(error.message);
}

/** Whether it says, as `server-info` does, that the server is a replica. */
export function isOfReplica(error: unknown): boolean {
  return error instanceof Error && error.message.includes('READONLY');
}

/** Whether a node of a cluster knows no node with slots. */
export function isWithoutSlots(error: unknown): boolean {
  return error instanceof Error && error.message.includes('no master with slots');
}

/** Whether a sentinel does not know the master by this name. */
export function knowsNoMaster(error: unknown): boolean {
  return error instanceof Error && error.message.includes('No such master with that name');
}

/** Whether the server refuses something to us or to everybody, for a reason other than a single key or cluster node. */
export function isRefusal(error: unknown): boolean {
  if (lacksRights(error)) return true;
  return (
    isReplyError(error) &&
    !isFromCluster(error) &&
    !hasStoppedInMovingSlot(error) &&
    !hasWrongType(error)
  );
}

/** Whether a script of ours has stopped half-way, because its slot is moving and a key is no longer on this node. */
function hasStoppedInMovingSlot(error: Error): boolean {
  return error.message.includes('non local key');
}

/** Whether the key in Redis is not a string. */
export function hasWrongType(error: unknown): boolean {
  return isReplyError(error) && error.message.includes('WRONGTYPE');
}

export function isNoSentinel(error: unknown): boolean {
  return error instanceof Error && /unknown command .?sentinel\b/i.test(error.message);
}

export function refusesUser(error: unknown): boolean {
  return error instanceof Error && /WRONGPASS|NOAUTH/i.test(error.message);
}
