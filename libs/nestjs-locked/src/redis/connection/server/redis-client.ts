import type { ScriptClient } from '../../scripts/redis-script.js';

/**
 * What `connection` may be besides a URL and options: a client of ioredis 5 or 6. It says where Redis is and how to log
 * in, and it is used for nothing else: the locks use connections of their own, made by `duplicate`. So the client stays
 * yours in every respect. It may be busy with a blocking command, a subscription or a transaction; it may select
 * another database, not be connected at all, or be closed before the locks are.
 */
export interface RedisClient {
  /** The options that it was made with; these are read. */
  readonly options: {
    readonly keyPrefix?: string | undefined;
    readonly connectionName?: string | null | undefined;
    readonly sentinels?: readonly Partial<{ host: string; port: number }>[] | null | undefined;
    /** How long a sentinel may take to answer, in milliseconds. */
    readonly sentinelCommandTimeout?: number | undefined;
    /** Of the master, as the sentinels call it. */
    readonly name?: string | undefined;
    readonly host?: string | undefined;
    readonly port?: number | undefined;
    /** Of a socket in the file system. */
    readonly path?: string | null | undefined;
    readonly db?: number | undefined;
    readonly tls?: object | undefined;
    /** Read again before every reconnect, because passwords may change. */
    readonly username?: string | null | undefined;
    readonly password?: string | null | undefined;
    readonly reconnectOnError?: ((error: Error) => boolean | 1 | 2) | null | undefined;
  };
  /** A connection of our own to the same server, with these options instead of the client's. */
  duplicate(override: object): RedisConnection;
}

/** The few things we ask of a connection of our own. Connections of ioredis 5 and of ioredis 6 both have them. */
export interface RedisConnection extends ScriptClient {
  /** For instance `connecting`, `connect`, `ready`, `reconnecting`, `end`. */
  readonly status: string;
  readonly options: object;
  /** The socket; undefined before the first attempt to connect. */
  readonly stream?: {
    cork(): void;
    uncork(): void;
    destroy(error?: Error): unknown;
    /** Calls back whenever bytes have arrived. */
    on(event: 'data', listener: (data: Buffer) => void): unknown;
  };
  /** The commands that were sent and are not answered yet. */
  readonly commandQueue: {
    /** How many they are. */
    readonly length: number;
  };
  connect(): Promise<unknown>;
  /** @param reconnect true: drop the connection and make a new one */
  disconnect(reconnect?: boolean): void;
  script(subcommand: 'LOAD', script: string): Promise<unknown>;
  info(section: string): Promise<string>;
  /** Sends a command by its name. */
  call(command: string, ...args: (string | number)[]): Promise<unknown>;
  get(key: string): Promise<string | null>;
  set(key: string, value: string, mode: 'PX', milliseconds: number): Promise<unknown>;
  del(key: string): Promise<unknown>;
  scan(
    cursor: string,
    match: 'MATCH',
    pattern: string,
    count: 'COUNT',
    size: number,
  ): Promise<[cursor: string, keys: string[]]>;
  subscribe(channel: string): Promise<unknown>;
  /** Which node of a Redis Cluster the connection has reached, or who serves what. */
  cluster(subcommand: 'MYID' | 'SLOTS'): Promise<unknown>;
  /** The next command on this connection is about a slot that is moving to this server. */
  asking(): Promise<unknown>;
  ping(): Promise<unknown>;
  on(event: 'connect' | 'ready' | 'close' | 'end', listener: () => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'message', listener: (channel: string, message: string) => void): unknown;
}
