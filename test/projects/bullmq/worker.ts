/**
 * Runs in the project into which docs/bullmq.md was compiled: the processors of that page in an application, with work
 * that takes a while and says when it begins and ends.
 */
import { BullModule, Processor, type WorkerHost } from '@nestjs/bullmq';
import type { Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { RedisLockModule } from 'nestjs-locked';
import { setTimeout as sleep } from 'node:timers/promises';

interface Work {
  readonly accountId: string;
}

const { REDIS_URL: url = '', WORK_MS: workMs = '20', LEASE_MS: leaseMs = '1000' } = process.env;
const lockDuration = Number(process.env['JOB_LOCK_MS'] ?? 1_000);

interface Exports extends WorkerHost {
  export(accountId: string): Promise<string>;
}

// As variables, because these files are there only in the project into which this one is copied.
const [payouts, exports] = ['./payouts.processor.js', './exports.processor.js'];
const { AccountService, PayoutsProcessor } = (await import(payouts)) as {
  AccountService: Type;
  PayoutsProcessor: Type<WorkerHost>;
};
const { ExportsProcessor } = (await import(exports)) as { ExportsProcessor: Type<Exports> };

// The page has the default times; here, a job stalls within seconds.
Processor('payouts', { concurrency: 10, lockDuration, stalledInterval: 1_000 })(PayoutsProcessor);

(ExportsProcessor.prototype as Exports).export = async (accountId) => {
  await work('export', { accountId });
  return `everything about ${accountId}`;
};

const app = await NestFactory.createApplicationContext(
  {
    module: class Root {},
    imports: [
      RedisLockModule.forRoot({ connection: url, leaseMs: Number(leaseMs) }),
      BullModule.forRoot({ connection: { url } }),
      BullModule.registerQueue({ name: 'payouts' }, { name: 'exports' }),
    ],
    providers: [
      { provide: AccountService, useValue: { pay: (payout: Work) => work('payout', payout) } },
      PayoutsProcessor,
      ExportsProcessor,
    ],
  },
  { logger: ['error', 'warn'] },
);
app.enableShutdownHooks();
console.log('ready');

async function work(what: string, { accountId }: Work): Promise<void> {
  say({ what, accountId, is: 'begun' });
  await sleep(Number(workMs));
  say({ what, accountId, is: 'done' });
}

function say(event: Record<string, string>): void {
  console.log(JSON.stringify({ ...event, at: Number(process.hrtime.bigint()) / 1e6 }));
}
