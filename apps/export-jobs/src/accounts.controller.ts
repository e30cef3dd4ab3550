import { InjectQueue } from '@nestjs/bullmq';
import { Controller, HttpCode, Param, Post, UseFilters } from '@nestjs/common';
import type { Queue } from 'bullmq';
import { LockExceptionFilter, lockKey, LockService } from 'nestjs-locked';
import { type ExportJob, EXPORTS } from './export-job.js';

/** How long a job may lie in the queue before its account is free again. */
const FOR_MS = 60_000;

/** Answers when the export is queued. The account stays locked until the export is done. */
@Controller('accounts')
@UseFilters(LockExceptionFilter)
export class AccountsController {
  constructor(
    private readonly locks: LockService,
    @InjectQueue(EXPORTS) private readonly exports: Queue<ExportJob>,
  ) {}

  @Post(':id/export')
  @HttpCode(202)
  async export(@Param('id') account: string): Promise<{ job: string | undefined }> {
    return this.locks.withLock(lockKey`account:${account}`, { waitMs: 0 }, async (mine) => {
      // Here: what must be done before the answer, under the lock.
      const lock = await mine.detach({ forMs: FOR_MS });
      try {
        const { id } = await this.exports.add('export', { account, lock });
        return { job: id };
      } catch (error) {
        // No job will, so it is released here, unless Redis is away: then it ends after its time.
        await this.locks.adopt(lock, () => {}).catch(() => {});
        throw error;
      }
    });
  }
}
