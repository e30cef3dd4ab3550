import type { LockService, LockServiceOptions, RedisLockModuleOptions } from 'nestjs-locked';

export interface OpenLockService {
  readonly locks: LockService;
  /** Does the work in a method that has `@Locked`. */
  locked(key: string, work: () => Promise<void>): Promise<void>;
  close(): Promise<void>;
}

/** A Nest application context of its own, as any application would have it. */
export async function openLockService(
  connection: RedisLockModuleOptions['connection'],
  options: LockServiceOptions,
): Promise<OpenLockService> {
  await import('reflect-metadata');
  const { NestFactory } = await import('@nestjs/core');
  const { Locked, LockService, RedisLockModule } = await import('nestjs-locked');

  class LockedWork {
    @Locked('<key>')
    async do(key: string, work: () => Promise<void>): Promise<void> {
      await work();
    }
  }

  const application = await NestFactory.createApplicationContext(
    {
      module: class BenchModule {},
      imports: [RedisLockModule.forRoot({ connection, ...options })],
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
