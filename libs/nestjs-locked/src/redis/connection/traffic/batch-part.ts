import type { RedisScript } from '../../scripts/redis-script.js';

type Arguments = readonly (string | number)[];

/** What a command sends if it shares one with others. */
export interface BatchPart {
  /** The script that carries out all of them. */
  readonly script: RedisScript;
  readonly isAcquire: boolean;
  readonly keys: () => readonly string[];
  /** Those of its own script. */
  readonly args: Arguments | (() => Arguments);
}

/**
 * The tokens whose lease, or place in the queue, the command changes. The order of commands that share none does not
 * matter: whoever is late has its turn later.
 */
export function tokensOf(part: BatchPart | undefined): readonly unknown[] | undefined {
  if (part === undefined) return undefined;
  const [token, , newToken = ''] = typeof part.args === 'function' ? part.args() : part.args;
  return part.isAcquire || newToken === '' ? [token] : [token, newToken];
}
