import { Module } from '@nestjs/common';
import { RedisLockModule } from 'nestjs-locked';
import { Configuration } from './configuration.js';
import { StockController } from './stock.controller.js';
import { StockService } from './stock.service.js';
import { Warehouse } from './warehouse.js';

@Module({ providers: [Configuration], exports: [Configuration] })
class ConfigurationModule {}

@Module({
  imports: [
    RedisLockModule.forRootAsync({
      imports: [ConfigurationModule],
      inject: [Configuration],
      useFactory: (configuration: Configuration) => ({
        connection: configuration.get('REDIS_URL'),
        waitMs: 5_000,
      }),
    }),
  ],
  controllers: [StockController],
  providers: [StockService, Warehouse],
})
export class AppModule {}
