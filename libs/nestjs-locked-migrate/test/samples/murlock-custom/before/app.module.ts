import { Module } from '@nestjs/common';
import { MurLockModule } from 'murlock';
import { ConfigService } from './config.js';
import { GamesService } from './games.service.js';

@Module({
  imports: [
    MurLockModule.forRootAsync({
      inject: [ConfigService],
      useFactory: (config: ConfigService) => {
        const host = config.get('REDIS_HOST');
        return {
          redisOptions: {
            url: `redis://${host}:${config.get('REDIS_PORT')}`,
            password: config.get('REDIS_PASSWORD'),
            database: Number(config.get('REDIS_DB')),
          },
          wait: config.get('LOCK_WAIT'),
          maxAttempts: 3,
          logLevel: 'warn',
          lockKeyPrefix: 'custom',
          failFastOnRedisError: true,
        };
      },
    }),
  ],
  providers: [ConfigService, GamesService],
})
export class AppModule {}
