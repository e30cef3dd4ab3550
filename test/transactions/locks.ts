import type { INestApplicationContext, Provider } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { LockService, RedisLockModule, type RedisLockModuleOptions } from 'nestjs-locked';
import { startNest } from '../support/nest-app.js';
import { openAdmin } from '../support/open-locks.js';

export interface StartedLocks {
  readonly app: INestApplicationContext;
  readonly locks: LockService;
}

/** An application with locks alone. Closed after the test. */
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

/** The same for a whole spec file, which closes it. */
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

/** What Redis says. */
export async function isHeld(redisUrl: string, key: string): Promise<boolean> {
  return (await openAdmin(redisUrl).get(`lock:{${key}}`)) !== null;
}

/** As if the lease had ended and somebody else had taken the key. */
export async function giveAway(redisUrl: string, key: string): Promise<void> {
  await openAdmin(redisUrl).set(`lock:{${key}}`, 'somebody else', 'PX', 5_000);
}
