import { LockService, RedisLockModule, type RedisLockModuleOptions } from 'nestjs-locked';
import { startNest } from '../support/nest-app.js';

/** The lock service of an application of its own; closed after the test. */
export async function ourLocks(
  connection: string,
  options: Omit<RedisLockModuleOptions, 'connection'> = {},
): Promise<LockService> {
  const app = await startNest({ imports: [RedisLockModule.forRoot({ ...options, connection })] });
  return app.get(LockService);
}
