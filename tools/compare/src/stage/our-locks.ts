import { LockService, RedisLockModule, type RedisLockModuleOptions } from 'nestjs-locked';
import { startApplication } from './application.js';
import type { RedisServer } from './redis.js';

/** The lock service of an application of its own. */
export async function ourLocks(
  server: RedisServer,
  options: Omit<RedisLockModuleOptions, 'connection'> = {},
): Promise<LockService> {
  const app = await startApplication({
    imports: [RedisLockModule.forRoot({ connection: server.url, ...options })],
  });
  return app.get(LockService);
}
