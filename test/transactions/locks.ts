import { afterAll } from '@jest/globals';
import type { INestApplicationContext, Provider } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { Redis } from 'ioredis';
import { LockService, RedisLockModule, type RedisLockModuleOptions } from 'nestjs-locked';
import { connectAdmin } from '../support/connect-admin.js';
import { startNest } from '../support/nest-app.js';

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

/** One connection to each Redis for the whole spec file. */
const admins = new Map<string, Redis>();

afterAll(() => {
  for (const admin of admins.values()) admin.disconnect();
});

function adminOf(redisUrl: string): Redis {
  const admin = admins.get(redisUrl) ?? connectAdmin(redisUrl);
  admins.set(redisUrl, admin);
  return admin;
}

/** Whether the lock exists in Redis. */
export async function isHeld(redisUrl: string, key: string): Promise<boolean> {
  return (await adminOf(redisUrl).get(`lock:{${key}}`)) !== null;
}

/** Gives the key to another holder, as if the lease had expired. */
export async function giveAway(redisUrl: string, key: string): Promise<void> {
  await adminOf(redisUrl).set(`lock:{${key}}`, 'somebody else', 'PX', 5_000);
}
