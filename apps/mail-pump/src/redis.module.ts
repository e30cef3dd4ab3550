import { Global, Logger, Module, type OnApplicationShutdown } from '@nestjs/common';
import { Redis } from 'ioredis';

/** One Redis client for the locks and the outbox. It is global so that Nest closes it after all that uses it. */
@Global()
@Module({
  providers: [
    {
      provide: Redis,
      useFactory: () =>
        new Redis(process.env['REDIS_URL'] ?? 'redis://localhost:6379').on('error', (error) =>
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
