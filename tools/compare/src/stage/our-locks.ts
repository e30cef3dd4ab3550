import type { RedisOptions } from 'ioredis';
import { LockService, type RedisLockModuleOptions } from 'nestjs-locked';
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
