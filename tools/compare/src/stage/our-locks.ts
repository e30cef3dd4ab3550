import { LockService, type RedisLockModuleOptions } from 'nestjs-locked';
import { ourModule, startApplication } from './decorated.js';
import type { RedisServer } from './redis.js';

/** The lock service of an application of its own. */
export async function ourLocks(
  server: RedisServer,
  options: Omit<RedisLockModuleOptions, 'connection'> = {},
): Promise<LockService> {
  const app = await startApplication({ imports: [ourModule(server, options)] });
  return app.get(LockService);
}
