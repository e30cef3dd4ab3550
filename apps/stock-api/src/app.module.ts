import { Module, ValidationPipe } from '@nestjs/common';
import { APP_FILTER, APP_PIPE } from '@nestjs/core';
import { Redis } from 'ioredis';
import { LockExceptionFilter, RedisLockModule } from 'nestjs-locked';
import { DatabaseModule } from './database.module.js';
import { DemoModule } from './demo/demo.module.js';
import { HealthModule } from './health/health.module.js';
import { LocksModule } from './locks/locks.module.js';
import { MetricsModule } from './metrics/metrics.module.js';
import { OrdersModule } from './orders/orders.module.js';
import { RedisModule } from './redis.module.js';
import { Settings, SettingsModule } from './settings.js';
import { StockModule } from './stock/stock.module.js';
import { TransactionsModule } from './transactions.module.js';

@Module({
  imports: [
    SettingsModule,
    DatabaseModule,
    TransactionsModule,
    RedisModule,
    RedisLockModule.forRootAsync({
      imports: [RedisModule],
      inject: [Redis, Settings],
      useFactory: (connection: Redis, settings: Settings) => ({
        connection,
        waitMs: settings.lockWaitMs,
        leaseMs: settings.lockLeaseMs,
        insideTransaction: settings.insideTransaction,
        fence: {},
      }),
    }),
    StockModule,
    OrdersModule,
    LocksModule,
    HealthModule,
    MetricsModule,
    // The unlocked variant is there only for `npm run demo`. Leave it out of your own application.
    ...(process.env['STOCK_DEMO'] === '1' ? [DemoModule] : []),
  ],
  providers: [
    {
      provide: APP_PIPE,
      useValue: new ValidationPipe({ whitelist: true, stopAtFirstError: true }),
    },
    { provide: APP_FILTER, useValue: new LockExceptionFilter() },
  ],
})
export class AppModule {}
