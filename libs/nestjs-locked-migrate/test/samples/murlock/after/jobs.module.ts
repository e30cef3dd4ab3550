import { Module } from '@nestjs/common';
import { RedisLockModule, type RedisLockModuleOptions } from 'nestjs-locked';

const options: RedisLockModuleOptions = {
  connection: { username: 'jobs', host: 'localhost', port: 6379, tls: {} },
  waitMs: 1200,
};

@Module({ imports: [RedisLockModule.forRoot(options)] })
export class JobsModule {}
