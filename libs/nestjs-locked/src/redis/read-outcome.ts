import { LockStoreError } from '../core/lock.errors.js';
import type { Unknown } from '../core/store/lock-store.js';
import type { CommandAnswer, CommandOutcome } from './connection/traffic/redis-command.js';
import { hasWrongType, isRefusal } from './scripts/reply-error.js';

/** @param mayHaveRunBefore whether the command may have run twice */
export type ReadReply<Reply> = (reply: unknown, mayHaveRunBefore: boolean) => Reply;

/** Reads an answer that replicas have not acknowledged. */
export type ReadUnacknowledged<Reply> = (
  answer: CommandAnswer,
  unknown: Unknown,
) => Reply | Unknown;

/** Reads the answer of Redis. Any other outcome becomes `unknown`, with the reason. */
export function readOutcome<Reply>(
  outcome: CommandOutcome,
  readReply: ReadReply<Reply>,
  readUnacknowledged: ReadUnacknowledged<Reply> = (_, unknown) => unknown,
): Reply | Unknown {
  try {
    if (outcome.kind === 'answered') return readReply(outcome.reply, outcome.mayHaveRunBefore);
    const { cause, neverRan, unacknowledged } = outcome;
    if (unacknowledged) return readUnacknowledged(unacknowledged, { kind: 'unknown', cause });
    if (hasWrongType(cause.cause)) return wrongType(cause);
    const unknown: Unknown = neverRan
      ? { kind: 'unknown', cause, neverRan }
      : { kind: 'unknown', cause };
    return isRefusal(cause.cause) ? { ...unknown, isRefused: true } : unknown;
  } catch (cause) {
    const message = `Cannot read the answer of Redis: ${String(cause)}`;
    return { kind: 'unknown', cause: new LockStoreError(message, undefined, { cause }) };
  }
}

function wrongType(cause: LockStoreError): Unknown {
  const message = `${cause.message}; the key in Redis is of another type, so something else has written it: use another key, or another keyPrefix if locks have one; for the locks of Redisson, layout: 'redisson'`;
  return {
    kind: 'unknown',
    cause: new LockStoreError(message, undefined, { cause }),
    isLasting: true,
  };
}

export function isUnknown<T extends object>(replies: T | Unknown): replies is Unknown {
  return 'kind' in replies;
}
