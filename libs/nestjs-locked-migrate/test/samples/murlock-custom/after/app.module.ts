import { Module } from '@nestjs/common';
import { RedisLockModule } from 'nestjs-locked';
import { ConfigService } from './config.js';
import { GamesService } from './games.service.js';

@Module({
  imports: [
    RedisLockModule.forRootAsync({
      inject: [ConfigService],
      useFactory: (config: ConfigService) => {
        const host = config.get('REDIS_HOST');
        return {
          connection: { host, port: Number(config.get('REDIS_PORT')), password: config.get('REDIS_PASSWORD'), db: Number(config.get('REDIS_DB')) },
        };
      },
    }),
  ],
  providers: [ConfigService, GamesService],
})
export class AppModule {}
