import { LockStoreError } from '../../../core/lock.errors.js';
import type { RedisConnection } from '../server/redis-client.js';

export interface RedisCommand {
  /** For messages: `acquire 'stock:42'`. */
  readonly action: string;
  /** The locks that the command concerns. For each lock, commands run in the order of the calls. */
  readonly keys: readonly string[];
  /** One of its keys in Redis, as it is sent. A cluster finds by it where to send the command. */
  readonly redisKey?: string;
  /**
   * In a cluster, what does the most urgent part of the work with one key, while only some of the command's keys have
   * arrived on their new server, so that the whole cannot be done.
   */
  readonly whileMoving?: WhileMoving | undefined;
  /**
   * False if a second run could do harm. If its connection breaks, it is not sent again, and its outcome is unknown.
   * @default true
   */
  readonly isRepeatable?: boolean;
  /** @param whole the server does not know the script of the command: it must be sent with it */
  send(redis: RedisConnection, whole: boolean): Promise<unknown>;
  /** Whether this answer means that the command must be sent again before its work is done. @default never */
  isUnfinished?(reply: unknown): boolean;
  /** Whether this answer grants or prolongs a lease, which a failover must not lose. @default never */
  readonly mustBeReplicated?: ((reply: unknown) => boolean) | undefined;
}

export interface WhileMoving {
  /** For how long the whole command is tried first, in milliseconds. */
  readonly afterMs: number;
  /** As `RedisCommand.send`. The answer is read in the same way. */
  send(redis: RedisConnection, whole: boolean): Promise<unknown>;
}

export interface CommandAnswer {
  readonly kind: 'answered';
  readonly reply: unknown;
  /** The command was sent before, on a connection that broke, so it may have run twice. */
  readonly mayHaveRunBefore: boolean;
}

export type CommandOutcome = CommandAnswer | CommandFailure;

export interface CommandFailure {
  readonly kind: 'failed';
  readonly cause: LockStoreError;
  /** True if the command was not carried out and will not be. False if nobody knows. */
  readonly neverRan: boolean;
  /** What the master answered, if only the replicas have failed: what it did may be lost in a failover. */
  readonly unacknowledged?: CommandAnswer;
}

/** What becomes of a command that is given before there is a connection, or after the locks were closed. */
export function notOpen({ action }: RedisCommand): CommandFailure {
  const cause = new LockStoreError(`Cannot ${action}: the locks are not open`);
  return { kind: 'failed', cause, neverRan: true };
}
