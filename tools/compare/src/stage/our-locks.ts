import type { RedisOptions } from 'ioredis';
import { LockService, RedisLockModule, type RedisLockModuleOptions } from 'nestjs-locked';
import { ourModule, startApplication } from './decorated.js';
import type { RedisServer } from './redis.js';

export type OurOptions = Omit<RedisLockModuleOptions, 'connection'>;

/** The lock service of an application of its own. */
export async function ourLocks(
  server: RedisServer,
  options: OurOptions = {},
  client?: RedisOptions,
): Promise<LockService> {
  const app = await startApplication({ imports: [ourModule(server, options, client)] });
  return app.get(LockService);
}

/** The same with several servers, of which more than half must agree. */
export async function ourQuorum(
  servers: readonly Pick<RedisServer, 'port'>[],
  options: OurOptions,
): Promise<LockService> {
  const quorum = servers.map(({ port }) => `redis://127.0.0.1:${port}`);
  const imports = [RedisLockModule.forRoot({ connection: { quorum }, ...options })];
  const app = await startApplication({ imports });
  return app.get(LockService);
}
