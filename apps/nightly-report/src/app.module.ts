import { Module } from '@nestjs/common';
import { ScheduleModule } from '@nestjs/schedule';
import { Redis } from 'ioredis';
import { RedisLockModule } from 'nestjs-locked';
import { RedisModule } from './redis.module.js';
import { ReportService } from './report.service.js';
import { ReportArchive } from './report-archive.js';
import { SettingsModule } from './settings.js';

@Module({
  imports: [
    SettingsModule,
    RedisModule,
    RedisLockModule.forRootAsync({
      imports: [RedisModule],
      inject: [Redis],
      useFactory: (connection: Redis) => ({ connection }),
    }),
    ScheduleModule.forRoot(),
  ],
  providers: [ReportService, ReportArchive],
})
export class AppModule {}
