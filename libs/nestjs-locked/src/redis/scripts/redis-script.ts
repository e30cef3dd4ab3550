import { createHash } from 'node:crypto';

/** What a Redis client must offer to run a script. */
export interface ScriptClient {
  /** Runs a script that the server knows by this hash. */
  evalsha(sha: string, numberOfKeys: number, ...keysAndArgs: (string | number)[]): Promise<unknown>;
  /** Runs a script, and makes it known to the server. */
  eval(script: string, numberOfKeys: number, ...keysAndArgs: (string | number)[]): Promise<unknown>;
}

/** A Lua script. It is sent by its hash, and sent whole if the server does not know it, or not any more. */
export class RedisScript {
  readonly sha: string;

  constructor(
    readonly name: string,
    readonly lua: string,
    /** Whether this answer grants or prolongs a lease, which a failover must not lose. @default it never does */
    readonly mustBeReplicated?: (reply: unknown) => boolean,
  ) {
    this.sha = createHash('sha1').update(lua).digest('hex');
  }

  /** @param whole the server does not know the script */
  send(
    client: ScriptClient,
    keys: readonly string[],
    args: readonly (string | number)[],
    whole: boolean,
  ): Promise<unknown> {
    return whole
      ? client.eval(this.lua, keys.length, ...keys, ...args)
      : client.evalsha(this.sha, keys.length, ...keys, ...args);
  }
}
