import type { INestApplicationContext, Provider } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { LockService, RedisLockModule, type RedisLockModuleOptions } from 'nestjs-locked';
import { startNest } from '../support/nest-app.js';
import { openAdmin } from '../support/open-locks.js';

export interface StartedLocks {
  readonly app: INestApplicationContext;
  readonly locks: LockService;
}

/** Starts an application with locks only. Closed after the test. */
export async function startLocks(
  redisUrl: string,
  options: Omit<RedisLockModuleOptions, 'connection'> = {},
  providers: Provider[] = [],
): Promise<StartedLocks> {
  const app = await startNest({
    imports: [RedisLockModule.forRoot({ connection: redisUrl, ...options })],
    providers,
  });
  return { app, locks: app.get(LockService) };
}

/** Starts such an application for a whole spec file, which must close it. */
export async function openLockApp(
  redisUrl: string,
  options: Omit<RedisLockModuleOptions, 'connection'> = {},
): Promise<{ readonly locks: LockService; close(): Promise<void> }> {
  const module = RedisLockModule.forRoot({ connection: redisUrl, ...options });
  const app = await NestFactory.createApplicationContext(module, {
    logger: false,
    abortOnError: false,
  });
  return { locks: app.get(LockService), close: () => app.close() };
}

/** Whether the lock exists in Redis. */
export async function isHeld(redisUrl: string, key: string): Promise<boolean> {
  return (await openAdmin(redisUrl).get(`lock:{${key}}`)) !== null;
}

/** Gives the key to another holder, as if the lease had expired. */
export async function giveAway(redisUrl: string, key: string): Promise<void> {
  await openAdmin(redisUrl).set(`lock:{${key}}`, 'somebody else', 'PX', 5_000);
}
