import { Inject, Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { SeededRandom } from 'kit';
import { InjectLockService, LockService, RedisLockModule } from 'nestjs-locked';
import { appendFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { watchHeartbeat } from '../worker/heartbeat.js';
import { reasonOf, SaleCall, type Shop } from './sale-call.js';
import { drawPlan, piecesOf } from './sale-plan.js';
import type { SaleEntry } from './sales-history.js';
import { LEASE_MS, type SalesTask } from './sales-task.js';
import { openTransactions } from './transactions.js';

/** What others may notice of a process that stands still. */
const STILL_MS = 500;

@Injectable()
class Services {
  constructor(
    @Inject(LockService) readonly plain: LockService,
    @InjectLockService('billing') readonly billing: LockService,
  ) {}
}

/**
 * A process that sells. It has several callers, each of which makes one call after the other until the parent ends
 * that.
 */
async function main(task: SalesTask): Promise<void> {
  const random = new SeededRandom(task.seed);
  // Each entry is appended at once, so that what a killed process saw is not lost.
  const note = (entry: SaleEntry): void =>
    appendFileSync(task.history, `${JSON.stringify({ at: Date.now(), ...entry })}\n`);
  const transactions = await openTransactions(task);
  const options = {
    connection: task.redisUrl,
    leaseMs: LEASE_MS,
    ...(task.broken.includes('unknown') ? {} : { insideTransaction: 'restart' as const }),
    ...(task.broken.length > 0 ? { waitMs: 500 } : {}), // some calls then wait for each other
    ...(task.fence ? { fence: {} } : {}),
  };
  const services = [
    RedisLockModule.forRoot(options),
    RedisLockModule.forRoot({ ...options, name: 'billing', keyPrefix: 'billing:' }),
  ];
  // The processes open their services in different orders.
  const imports = [
    ...transactions.modules,
    ...(random.chance(0.5) ? services : services.reverse()),
  ];

  @Module({ imports, providers: [Services] })
  class Root {}

  const application = await NestFactory.createApplicationContext(Root, { logger: false });
  const { plain, billing } = application.get(Services);
  const { broken, fence, opens } = task;
  const shop: Shop = {
    ...{ application, transactions, plain, billing },
    ...{ random, broken, note, fence, opens },
  };
  const stopHeartbeat = watchHeartbeat((since, at) => {
    if (at - since >= STILL_MS)
      note({ kind: 'stood still', call: `${task.name}/`, ms: at - since });
  });
  let running = true;
  process.on('message', () => (running = false));
  process.send?.('ready');

  const caller = async (name: string): Promise<void> => {
    for (let n = 1; running; n++) {
      const call = `${name}/${n}`;
      const plan = drawPlan(random, task.without, task.driverLimitMs !== undefined);
      const sale = new SaleCall(shop, call, plan);
      note({ kind: 'asked', call, pieces: piecesOf(plan), style: plan.style });
      try {
        await sale.make();
        note({ kind: 'acknowledged', call, run: sale.run });
      } catch (error) {
        const { run } = sale;
        // What failed before its end was never to be committed, whatever the driver says of it.
        const why = reasonOf(error) ?? (sale.wasToCommit ? undefined : 'failed before its end');
        if (task.broken.includes('answer')) note({ kind: 'acknowledged', call, run });
        else if (why === undefined) note({ kind: 'unknown', call, run, why: String(error) });
        else
          note({ kind: 'refused', call, run, why: plan.style === 'join' ? `join: ${why}` : why });
      }
      await sleep(random.between(0, 10));
    }
  };
  await Promise.all(Array.from({ length: task.callers }, (_, i) => caller(`${task.name}/${i}`)));
  await sleep(100); // time for work that nobody has awaited
  stopHeartbeat();
  await application.close();
  await transactions.close();
  process.disconnect();
}

await main(JSON.parse(process.argv[2] as string) as SalesTask);
