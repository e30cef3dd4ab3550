import type { LockService, LockServiceOptions } from 'nestjs-locked';

export interface OpenLockService {
  readonly locks: LockService;
  /** Does the work in a method that has `@Locked`. */
  locked(key: string, work: () => Promise<void>): Promise<void>;
  close(): Promise<void>;
}

/** A Nest application context of its own, as any application would have it. */
export async function openLockService(
  url: string,
  options: LockServiceOptions,
): Promise<OpenLockService> {
  await import('reflect-metadata');
  const { NestFactory } = await import('@nestjs/core');
  const { LockService, RedisLockModule } = await import('nestjs-locked');
  const { LockedWork } = await import('./locked-work.js');
  const application = await NestFactory.createApplicationContext(
    {
      module: class BenchModule {},
      imports: [RedisLockModule.forRoot({ connection: url, ...options })],
      providers: [LockedWork],
    },
    { logger: ['warn', 'error'], abortOnError: false },
  );
  application.enableShutdownHooks();
  const work = application.get(LockedWork);
  return {
    locks: application.get(LockService),
    locked: (key, act) => work.do(key, act),
    close: () => application.close(),
  };
}
