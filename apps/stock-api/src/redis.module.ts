import { Global, Logger, Module, type OnApplicationShutdown } from '@nestjs/common';
import { Redis } from 'ioredis';
import { Settings } from './settings.js';

/**
 * One Redis client for the whole application, of which the locks use the settings. It is global because Nest closes
 * global modules last, and in reverse order among them. The lock module, which is global as well, is closed by then.
 */
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
