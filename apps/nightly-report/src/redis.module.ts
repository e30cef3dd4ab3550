import { Global, Logger, Module, type OnApplicationShutdown } from '@nestjs/common';
import { Redis } from 'ioredis';
import { Settings } from './settings.js';

/** One Redis client for the locks and the archive. It is global so that Nest closes it after all that uses it. */
@Global()
@Module({
  providers: [
    {
      provide: Redis,
      inject: [Settings],
      useFactory: (settings: Settings) =>
        new Redis(settings.redisUrl).on('error', (error) =>
          new Logger('Redis').warn(error.message),
        ),
    },
  ],
  exports: [Redis],
})
export class RedisModule implements OnApplicationShutdown {
  constructor(private readonly redis: Redis) {}

  onApplicationShutdown(): void {
    this.redis.disconnect();
  }
}
