import type { LockStoreError } from '../../core/lock.errors.js';
import type { RedisConnection } from './redis-client.js';

export interface RedisCommand {
  /** For messages: `acquire 'stock:42'`. */
  readonly action: string;
  /** The locks that it is about: for each of them, commands run in the order of the calls. */
  readonly keys: readonly string[];
  /** False: a second run could do harm. If its connection breaks it is not sent again, and nobody knows. @default true */
  readonly isRepeatable?: boolean;
  /** @param mayRepeat see `RedisScript.run` */
  send(redis: RedisConnection, mayRepeat: () => Promise<boolean>): Promise<unknown>;
}

export type CommandOutcome =
  | {
      readonly kind: 'answered';
      readonly reply: unknown;
      /** It was sent before, on a connection that broke, so that this may be the answer to the second time. */
      readonly mayHaveRunBefore: boolean;
    }
  | CommandFailure;

export interface CommandFailure {
  readonly kind: 'failed';
  readonly cause: LockStoreError;
  /** It was not carried out, and will not be. False: nobody knows. */
  readonly neverRan: boolean;
}
