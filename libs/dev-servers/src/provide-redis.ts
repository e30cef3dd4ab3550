import { startContainer } from './container-engine.js';
import { RedisServer } from './redis-server.js';

/** A Redis that may be used until `stop()`. */
export interface ProvidedRedis {
  readonly url: string;
  /** Where it came from. A server of `REDIS_URL` is the caller's: it may hold other data. */
  readonly source: 'REDIS_URL' | 'container' | 'binary';
  /** Stops what was started; a server of `REDIS_URL` is left as it is. */
  stop(): Promise<void>;
}

/**
 * Gives a Redis server: the one of `REDIS_URL`, else a container, else a redis-server or
 * valkey-server process, which root on Debian and Ubuntu gets from apt when it is missing.
 *
 * @throws Error naming the ways to get one when there is none.
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
