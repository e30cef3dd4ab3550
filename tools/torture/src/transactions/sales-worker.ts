import { Inject, Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { SeededRandom } from 'kit';
import { InjectLockService, LockService, RedisLockModule } from 'nestjs-locked';
import { setTimeout as sleep } from 'node:timers/promises';
import { HistoryFile } from '../history/history-file.js';
import { watchHeartbeat } from '../worker/heartbeat.js';
import type { Report } from '../worker/task.js';
import { reasonOf, SaleCall, type Shop } from './sale-call.js';
import { drawPlan, piecesOf } from './sale-plan.js';
import type { SaleKinds } from './sales-history.js';
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
  const { broken, fence } = task;
  const random = new SeededRandom(task.seed);
  const history = new HistoryFile<SaleKinds>(task.history);
  const transactions = await openTransactions(task);
  const options = {
    connection: task.redisUrl,
    leaseMs: LEASE_MS,
    ...(broken.includes('unknown') ? {} : { insideTransaction: 'restart' as const }),
    ...(broken.length > 0 ? { waitMs: 500 } : {}), // some calls then wait for each other
    ...(fence ? { fence: {} } : {}),
  };
  const services = [
    RedisLockModule.forRoot(options),
    RedisLockModule.forRoot({ ...options, name: 'billing', keyPrefix: 'billing:' }),
  ];
  // The processes open their services in different orders.
  const opened = random.chance(0.5) ? services : services.reverse();

  @Module({ imports: [...transactions.modules, ...opened], providers: [Services] })
  class Root {}

  const application = await NestFactory.createApplicationContext(Root, { logger: false });
  const locks = application.get(Services);
  const shop: Shop = { application, transactions, locks, random, task, history };
  const stopHeartbeat = watchHeartbeat((since, at) => {
    if (at - since >= STILL_MS) history.note('stalled', { process: task.name, since }, at);
  });
  let running = true;
  process.on('message', () => (running = false));
  report({ is: 'ready' });

  const caller = async (name: string): Promise<void> => {
    for (let n = 1; running; n++) {
      await makeCall(shop, `${name}/${n}`);
      await sleep(random.between(0, 10));
    }
  };
  await Promise.all(Array.from({ length: task.callers }, (_, i) => caller(`${task.name}/${i}`)));
  await sleep(100); // time for work that nobody has awaited
  stopHeartbeat();
  await application.close();
  await transactions.close();
  report({ is: 'closed' });
  process.disconnect();
}

async function makeCall(shop: Shop, call: string): Promise<void> {
  const { task, random, history } = shop;
  const plan = drawPlan(random, task.without, task.driverLimitMs !== undefined);
  const sale = new SaleCall(shop, call, plan);
  history.note('asked', { call, pieces: piecesOf(plan), style: plan.style });
  try {
    await sale.make();
    history.note('acknowledged', { call, run: sale.run });
  } catch (error) {
    const run = { call, run: sale.run };
    // What failed before its end was never to be committed, whatever the driver says of it.
    const why = reasonOf(error) ?? (sale.wasToCommit ? undefined : 'failed before its end');
    if (task.broken.includes('answer')) history.note('acknowledged', run);
    else if (why === undefined) history.note('unknown', { ...run, why: String(error) });
    else history.note('refused', { ...run, why: plan.style === 'join' ? `join: ${why}` : why });
  }
}

function report(message: Report): void {
  process.send?.(message);
}

await main(JSON.parse(process.argv[2] as string) as SalesTask);
