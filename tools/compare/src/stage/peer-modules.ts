import type * as NestRedlock from '@anchan828/nest-redlock';
import type { DynamicModule } from '@nestjs/common';
import { createRequire } from 'node:module';
import { connect, type RedisServer } from './redis.js';

/** The build for ES modules cannot be imported, which is a scenario of its own. */
export function nestRedlock(): typeof NestRedlock {
  const require = createRequire(import.meta.url);
  return require('@anchan828/nest-redlock') as typeof NestRedlock;
}

/** The modules of the peers that have one, set up as their README does it. */

export async function murlockModule(server: RedisServer): Promise<DynamicModule> {
  const { MurLockModule } = await import('murlock');
  return MurLockModule.forRoot({
    redisOptions: { url: server.url },
    wait: 1000,
    maxAttempts: 3,
    logLevel: 'error',
  });
}

export async function nestjsRedisModule(server: RedisServer): Promise<DynamicModule> {
  const { RedlockModule } = await import('@nestjs-redis/lock');
  const { createClient } = await import('redis');
  const client = await createClient({ url: server.url }).connect();
  return RedlockModule.forRoot({ clients: [client as never] });
}

export async function universalModule(server: RedisServer): Promise<DynamicModule> {
  const { RedlockModule, IoredisAdapter } = await import('nestjs-redlock-universal');
  return RedlockModule.forRoot({
    nodes: [new IoredisAdapter(await connect(server))],
    defaultTtl: 30_000,
    retryAttempts: 3,
    retryDelay: 200,
  });
}

export async function nestRedlockModule(server: RedisServer): Promise<DynamicModule> {
  return nestRedlock().RedlockModule.register({
    isGlobal: true,
    clients: [await connect(server)],
    settings: { driftFactor: 0.01, retryCount: 10, retryDelay: 200, retryJitter: 200 },
    duration: 1000,
  });
}

/** What `peer-modules.ts` sets up, in the words of the page. */
export const SETTINGS = {
  murlock: 'README: `wait: 1000`, `maxAttempts: 3`.',
  nestjsRedis: 'README: one client, defaults (3 tries, 200 to 300 ms apart).',
  universal: 'README: `defaultTtl: 30000`, `retryAttempts: 3`, `retryDelay: 200`.',
  nestRedlock: 'README: `retryCount: 10`, `retryDelay: 200`, `retryJitter: 200`.',
} as const;
