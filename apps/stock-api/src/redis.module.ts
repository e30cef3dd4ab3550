import { Logger, Module, type OnApplicationShutdown } from '@nestjs/common';
import { Redis } from 'ioredis';
import { Settings } from './settings.js';

/** One Redis client for the whole application: the locks and the health check share it. */
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

  /** Runs after the locks were released: modules shut down in reverse order of their imports. */
  onApplicationShutdown(): void {
    this.redis.disconnect();
  }
}
