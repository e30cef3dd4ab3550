import { afterAll, beforeAll } from '@jest/globals';
import { RedisServer, type RedisServerOptions } from 'dev-servers';
import type { Redis } from 'ioredis';
import { afterTest } from './after-test.js';
import { connectAdmin } from './connect-admin.js';

/** A server that the tests may pause, kill and restart. */
export interface OwnRedis extends Pick<
  RedisServer,
  'url' | 'port' | 'pause' | 'resume' | 'kill' | 'restart'
> {
  /** A connection for inspecting and manipulating the server, opened on first use. */
  readonly admin: Redis;
}

/**
 * A Redis server for one spec file or `describe`, from the first `beforeAll` to the end. It is for tests that pause,
 * kill or configure their server, create users, empty it, or inspect all of its commands and connections. Tests that
 * only use their own keys use `useRedis`, the server of the whole run, which needs no start.
 *
 * Jest runs hooks in the order of their declaration: code that uses the server in its own `afterAll` must declare it
 * before it calls this function.
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
    if (server === undefined) throw new Error('The server does not run before beforeAll');
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

/** A server for the current test only. @param args additional arguments of redis-server */
export async function startRedisServer(...args: string[]): Promise<RedisServer> {
  const server = await RedisServer.start({ args });
  afterTest(() => server.stop());
  return server;
}
