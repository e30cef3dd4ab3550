import { Module } from '@nestjs/common';
import { MurLockModule } from 'murlock';
import { OrdersService } from './orders.service.js';
import { WalletService } from './wallet.service.js';

@Module({
  imports: [
    MurLockModule.forRoot({
      redisOptions: { url: process.env.REDIS_URL },
      wait: 1000,
      maxAttempts: 3,
      logLevel: 'log',
      ignoreUnlockFail: false,
    }),
  ],
  providers: [OrdersService, WalletService],
})
export class AppModule {}
