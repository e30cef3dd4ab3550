import { createHash } from 'node:crypto';

/** The part of a Redis client that runs scripts. */
export interface ScriptClient {
  /** Runs a cached script by its hash. */
  evalsha(sha: string, numberOfKeys: number, ...keysAndArgs: (string | number)[]): Promise<unknown>;
  /** Runs a script and caches it in the server. */
  eval(script: string, numberOfKeys: number, ...keysAndArgs: (string | number)[]): Promise<unknown>;
}

/** A Lua script. It is sent by its hash, and in full if the server does not, or no longer, know it. */
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

  /** @param whole whether to send the whole script, which the server does not know */
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
