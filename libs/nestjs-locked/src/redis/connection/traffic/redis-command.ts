import { LockStoreError } from '../../../core/lock.errors.js';
import type { RedisConnection } from '../server/redis-client.js';
import type { BatchPart } from './batch-part.js';

export interface RedisCommand {
  /** For messages: `acquire 'stock:42'`. */
  readonly action: string;
  /** The locks of the command. For each lock, commands run in the order of the calls. */
  readonly keys: readonly string[];
  /** The leases that it concerns, if it has no effect on others: its order with commands for those does not matter. */
  readonly tokens?: readonly string[] | undefined;
  /** One of its keys in Redis, as sent, by which a cluster routes the command. */
  readonly redisKey?: string;
  /**
   * In a cluster, a form that does the most urgent part of the work with one key, while only some of the command's keys
   * have arrived on their new server.
   */
  readonly whileMoving?: WhileMoving | undefined;
  /** What it sends if it shares a command with others. Undefined if it never does. */
  readonly part?: BatchPart | undefined;
  /**
   * False if a second execution could do harm. If the connection breaks, it is not resent, and its outcome is unknown.
   * @default true
   */
  readonly isRepeatable?: boolean;
  /** @param whole whether to send the whole script, which the server does not know */
  send(redis: RedisConnection, whole: boolean): Promise<unknown>;
  /** Whether this answer means that the command must be sent again to finish its work. @default never */
  isUnfinished?(reply: unknown): boolean;
  /** Whether this answer grants or prolongs a lease, which a failover must not lose. @default never */
  readonly mustBeReplicated?: ((reply: unknown) => boolean) | undefined;
}

export interface WhileMoving {
  /** How long the whole command is tried first, in milliseconds. */
  readonly afterMs: number;
  /** Like `RedisCommand.send`. The answer is read in the same way. */
  send(redis: RedisConnection, whole: boolean): Promise<unknown>;
}

export interface CommandAnswer {
  readonly kind: 'answered';
  readonly reply: unknown;
  /** Whether the command was sent before on a connection that broke, and may have run twice. */
  readonly mayHaveRunBefore: boolean;
}

export type CommandOutcome = CommandAnswer | CommandFailure;

export interface CommandFailure {
  readonly kind: 'failed';
  readonly cause: LockStoreError;
  /** True if the command was not and will not be executed. False if unknown. */
  readonly neverRan: boolean;
  /** The answer of the master if only the replicas have failed, so that its effect may be lost in a failover. */
  readonly unacknowledged?: CommandAnswer;
}

/** The outcome of a command before there is a connection, or after the locks were closed. */
export function notOpen({ action }: RedisCommand): CommandFailure {
  const cause = new LockStoreError(`Cannot ${action}: the locks are not open`);
  return { kind: 'failed', cause, neverRan: true };
}
