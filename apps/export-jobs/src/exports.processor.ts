import { Processor, WorkerHost } from '@nestjs/bullmq';
import { Logger, type OnModuleDestroy } from '@nestjs/common';
import type { Job } from 'bullmq';
import { type Lock, lockKey, LockNotAdoptedError, LockService } from 'nestjs-locked';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ExportJob, EXPORTS } from './export-job.js';

const EXPORT_MS = 500;

/** Exports accounts, each under the lock of the request that has queued the job. */
@Processor(EXPORTS, { concurrency: 10, lockDuration: 5_000, stalledInterval: 5_000 })
export class ExportsProcessor extends WorkerHost implements OnModuleDestroy {
  readonly #logger = new Logger(ExportsProcessor.name);

  constructor(private readonly locks: LockService) {
    super();
  }

  async process({ data }: Job<ExportJob>): Promise<void> {
    const work = (lock: Lock): Promise<void> => this.#export(data.account, lock);
    try {
      await this.locks.adopt(data.lock, work);
    } catch (error) {
      if (!(error instanceof LockNotAdoptedError)) throw error;
      // Another attempt has had the lock, or its time was over. It may be another's turn: this job waits for its own.
      this.#logger.warn(`the lock of account ${data.account} is taken anew`);
      await this.locks.withLock(lockKey`account:${data.account}`, work);
    }
  }

  async #export(account: string, lock: Lock): Promise<void> {
    this.#logger.log(`account ${account}: begun`);
    await sleep(EXPORT_MS, undefined, { signal: lock.signal });
    lock.assertHeld(); // right before what cannot be undone
    this.#logger.log(`account ${account}: done`);
  }

  /** Before the locks close. */
  async onModuleDestroy(): Promise<void> {
    await this.worker.close();
  }
}
