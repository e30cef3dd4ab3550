import { Module } from '@nestjs/common';
import { MurLockModule, MurLockModuleOptions } from 'murlock';

const options: MurLockModuleOptions = {
  redisOptions: { socket: { host: 'localhost', port: 6379, tls: true }, username: 'jobs' },
  wait: 200,
  maxAttempts: 3,
  logLevel: 'error',
};

@Module({ imports: [MurLockModule.forRoot(options)] })
export class JobsModule {}
