import { Module } from '@nestjs/common';
import { Redis } from 'ioredis';
import { RedisLockModule } from 'nestjs-locked';
import { MailPump } from './mail-pump.js';
import { Outbox } from './outbox.js';
import { RedisModule } from './redis.module.js';

@Module({
  imports: [
    RedisModule,
    RedisLockModule.forRootAsync({
      imports: [RedisModule],
      inject: [Redis],
      // How long mail may lie when the process that sends it has crashed.
      useFactory: (connection: Redis) => ({ connection, leaseMs: 3_000 }),
    }),
  ],
  providers: [MailPump, Outbox],
})
export class AppModule {}
