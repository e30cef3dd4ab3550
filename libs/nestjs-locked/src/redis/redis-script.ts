import { createHash } from 'node:crypto';

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
   * @param isWanted asked before the script is sent whole: if the caller has stopped waiting by then, it must not
   * run behind the commands that clean up after it.
   */
  async run(
    client: ScriptClient,
    keys: readonly string[],
    args: readonly (string | number)[],
    isWanted: () => boolean,
  ): Promise<unknown> {
    try {
      return await client.evalsha(this.sha, keys.length, ...keys, ...args);
    } catch (error) {
      if (!isUnknownScript(error) || !isWanted()) throw error;
      return await client.eval(this.lua, keys.length, ...keys, ...args);
    }
  }
}

function isUnknownScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOSCRIPT');
}
