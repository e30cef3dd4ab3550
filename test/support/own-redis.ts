import { afterAll, beforeAll } from '@jest/globals';
import { RedisServer, type RedisServerOptions } from 'dev-servers';
import type { Redis } from 'ioredis';
import { afterTest } from './after-test.js';
import { connectAdmin } from './connect-admin.js';

/** A server that may be paused, killed and restarted, as its tests like. */
export interface OwnRedis extends Pick<
  RedisServer,
  'url' | 'port' | 'pause' | 'resume' | 'kill' | 'restart'
> {
  /** A connection for looking on and for meddling, opened when it is asked for first. */
  readonly admin: Redis;
}

/**
 * A Redis server for one spec file or `describe` alone, there from its first `beforeAll` to its end. Take it for tests
 * that pause, kill or configure their server, make users on it, empty it, or look at all of its commands and
 * connections. Tests that do nothing but use keys of their own take `useRedis`, the server of the whole run, which
 * starts nothing.
 *
 * Hooks of Jest run in the order in which they are declared: what uses the server and has an `afterAll` of its own says
 * so before it calls this.
 */
export function useRedisServer(options?: RedisServerOptions): OwnRedis {
  let server: RedisServer | undefined;
  let admin: Redis | undefined;

  beforeAll(async () => {
    server = await RedisServer.start(options);
  });

  afterAll(async () => {
    admin?.disconnect();
    await server?.stop();
  });

  const started = (): RedisServer => {
    if (server === undefined) throw new Error('The server is there from beforeAll on, not before');
    return server;
  };
  return {
    get url() {
      return started().url;
    },
    get port() {
      return started().port;
    },
    get admin() {
      return (admin ??= connectAdmin(started().url));
    },
    pause: () => started().pause(),
    resume: () => started().resume(),
    kill: () => started().kill(),
    restart: () => started().restart(),
  };
}

/** A server for the present test alone. @param args further arguments of redis-server */
export async function startRedisServer(...args: string[]): Promise<RedisServer> {
  const server = await RedisServer.start({ args });
  afterTest(() => server.stop());
  return server;
}
