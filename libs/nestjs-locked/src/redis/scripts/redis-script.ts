import { createHash } from 'node:crypto';
import { isUnknownScript } from './reply-error.js';

/** What a Redis client must offer to run a script. */
export interface ScriptClient {
  evalsha(sha: string, numberOfKeys: number, ...keysAndArgs: (string | number)[]): Promise<unknown>;
  eval(script: string, numberOfKeys: number, ...keysAndArgs: (string | number)[]): Promise<unknown>;
}

/** A Lua script. It is sent by its hash, and sent whole if the server does not know it, or not any more. */
export class RedisScript {
  readonly sha: string;

  constructor(
    readonly name: string,
    readonly lua: string,
  ) {
    this.sha = createHash('sha1').update(lua).digest('hex');
  }

  /**
   * @param mayRepeat asked before the script is sent whole. It answers false if nobody waits for this command any more,
   * because the script must not run after the commands that clean up after it. It answers only when it is this
   * command's turn
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
