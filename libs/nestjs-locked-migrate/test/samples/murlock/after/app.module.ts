import { Module } from '@nestjs/common';
import { RedisLockModule } from 'nestjs-locked';
import { OrdersService } from './orders.service.js';
import { WalletService } from './wallet.service.js';

@Module({
  imports: [
    RedisLockModule.forRoot({
      connection: process.env.REDIS_URL ?? 'redis://localhost:6379',
      waitMs: 6000,
    }),
  ],
  providers: [OrdersService, WalletService],
})
export class AppModule {}
