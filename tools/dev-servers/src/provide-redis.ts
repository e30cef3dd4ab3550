import { startContainer } from './container-engine.js';
import { RedisServer } from './redis-server.js';

/** A Redis that may be used until `stop()`. */
export interface ProvidedRedis {
  readonly url: string;
  /** Where it came from. A server that `REDIS_URL` names belongs to the caller, and may hold other data. */
  readonly source: 'REDIS_URL' | 'container' | 'binary';
  /** Stops what was started. A server that `REDIS_URL` names is left as it is. */
  stop(): Promise<void>;
}

/**
 * Provides a Redis server: the one that `REDIS_URL` names, otherwise a container, otherwise a redis-server or
 * valkey-server process. If the program is missing, it is installed with apt when this is root on Debian or Ubuntu.
 *
 * @throws Error that names the ways to get one if there is none.
 */
export async function provideRedis(): Promise<ProvidedRedis> {
  const url = process.env.REDIS_URL;
  if (url) return { url, source: 'REDIS_URL', stop: () => Promise.resolve() };

  const container = await startContainer({
    image: 'redis:8-alpine',
    port: 6379,
    command: ['redis-server', '--save', '', '--appendonly', 'no'],
    readyLog: { text: 'Ready to accept connections', times: 1 },
  });
  if (container) {
    return {
      url: `redis://${container.host}:${container.port}`,
      source: 'container',
      stop: () => container.stop(),
    };
  }

  const server = await RedisServer.start();
  return { url: server.url, source: 'binary', stop: () => server.stop() };
}
