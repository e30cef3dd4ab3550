import { BullModule } from '@nestjs/bullmq';
import { Module } from '@nestjs/common';
import { RedisLockModule } from 'nestjs-locked';
import { AccountsController } from './accounts.controller.js';
import { EXPORTS } from './export-job.js';
import { ExportsProcessor } from './exports.processor.js';

const url = process.env['REDIS_URL'] ?? 'redis://localhost:6379';

/** What both processes have: the locks and the queue, in one Redis. */
@Module({
  imports: [
    RedisLockModule.forRoot({ connection: url, leaseMs: 3_000 }),
    BullModule.forRoot({ connection: { url } }),
    BullModule.registerQueue({ name: EXPORTS }),
  ],
  exports: [BullModule],
})
class SharedModule {}

/** The process that answers requests. */
@Module({ imports: [SharedModule], controllers: [AccountsController] })
export class ApiModule {}

/** The process that does the work. */
@Module({ imports: [SharedModule], providers: [ExportsProcessor] })
export class WorkerModule {}
