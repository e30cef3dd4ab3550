import { EventEmitter } from 'node:events';
import type {
  RedisClient,
  RedisConnection,
} from '../../libs/nestjs-locked/src/redis/connection/server/redis-client.js';

/** The options that the library sets and ioredis calls. */
interface Override {
  readonly retryStrategy: () => number;
}

/**
 * A client whose only connection leads to no server; the test plays the server. Like ioredis, it emits connection
 * events. Unlike ioredis, it connects at once, and reconnects at once whenever the connection is replaced.
 */
export class PlayedRedis extends EventEmitter {
  options: Record<string, unknown> = {};
  status = 'wait';
  readonly commandQueue = { length: 0 };
  readonly stream = { cork() {}, uncork() {}, on() {}, destroy: () => this.disconnect(true) };
  /** How many times it has connected. */
  made = 0;
  override!: Override;
  info = async (_section: string): Promise<string> => 'role:master';
  ping = async (): Promise<string> => 'PONG';
  subscribe = async (_channel: string): Promise<unknown> => 1;

  /** The client that an application passes to the library. */
  readonly client = {
    options: {} as { username?: string; password?: string },
    duplicate: (override: object): RedisConnection => {
      this.override = override as Override;
      return this as unknown as RedisConnection;
    },
  } satisfies RedisClient;

  async connect(): Promise<void> {
    await Promise.resolve();
    this.made++;
    this.status = 'ready';
    this.emit('connect');
    this.emit('ready');
  }

  disconnect(reconnect = false): void {
    this.status = 'close';
    this.emit('close');
    if (reconnect) void this.connect();
  }
}
