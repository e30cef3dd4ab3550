import type { RedisScript } from '../../scripts/redis-script.js';

type Arguments = readonly (string | number)[];

/** What a command sends if it shares one with others. */
export interface BatchPart {
  /** The script that carries out all of them. */
  readonly script: RedisScript;
  readonly isAcquire: boolean;
  readonly keys: readonly string[];
  /** Those of its own script. */
  readonly args: Arguments | (() => Arguments);
}
