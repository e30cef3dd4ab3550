import type { ScriptClient } from './redis-script.js';

/**
 * The few things we ask of a Redis client. Clients of ioredis 5 and of ioredis 6 both fit.
 *
 * A client that you pass in stays yours: no command is defined on it, no setting changed, and it is not closed.
 */
export interface RedisClient extends ScriptClient {
  /** For instance `ready`, `wait`, `reconnecting`. */
  readonly status: string;
  readonly options: { readonly keyPrefix?: string | undefined };
  /** Called only for a client that waits to be connected (`lazyConnect`). */
  connect(): Promise<unknown>;
  info(section: string): Promise<string>;
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
  /** A connection of our own to the same server, for the inbox. */
  duplicate(override: object): RedisSubscriber;
  on(event: 'ready', listener: () => void): unknown;
  off(event: 'ready', listener: () => void): unknown;
}

/** The inbox connection. */
export interface RedisSubscriber {
  readonly status: string;
  subscribe(channel: string): Promise<unknown>;
  ping(): Promise<unknown>;
  /** @param reconnect true: drop the connection and make a new one */
  disconnect(reconnect?: boolean): void;
  on(event: 'ready' | 'close', listener: () => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'message', listener: (channel: string, message: string) => void): unknown;
}
