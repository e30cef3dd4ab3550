import { createHash } from 'node:crypto';
import { isUnknownScript } from './reply-error.js';

/** What running a script asks of a Redis client. */
export interface ScriptClient {
  evalsha(sha: string, numberOfKeys: number, ...keysAndArgs: (string | number)[]): Promise<unknown>;
  eval(script: string, numberOfKeys: number, ...keysAndArgs: (string | number)[]): Promise<unknown>;
}

/** A Lua script, sent by its hash, and whole if the server does not know it (any more). */
export class RedisScript {
  readonly sha: string;

  constructor(
    readonly name: string,
    readonly lua: string,
  ) {
    this.sha = createHash('sha1').update(lua).digest('hex');
  }

  /**
   * @param mayRepeat asked before the script is sent whole: not if the caller has stopped waiting, because it must not
   * run behind the commands that clean up after it; and not before its turn among other commands
   */
  async run(
    client: ScriptClient,
    keys: readonly string[],
    args: readonly (string | number)[],
    mayRepeat: () => boolean | Promise<boolean>,
  ): Promise<unknown> {
    try {
      return await client.evalsha(this.sha, keys.length, ...keys, ...args);
    } catch (error) {
      if (!isUnknownScript(error) || !(await mayRepeat())) throw error;
      return await client.eval(this.lua, keys.length, ...keys, ...args);
    }
  }
}
