import { setTimeout as sleep } from 'node:timers/promises';
import { NestFactory } from '@nestjs/core';
import { Redis } from 'ioredis';
import { LockError, LockService, RedisLockModule, type Lock } from 'nestjs-locked';
import { HistoryFile, monotonicMs } from './history.js';
import { SeededRandom } from './seeded-random.js';
import { LEASE_MS, WAIT_MS, type WorkerTask } from './task.js';

/**
 * A process that locks: several callers that ask for random keys, hold them for random times, and write down what
 * they saw. Ends when its parent says so.
 */
async function main(task: WorkerTask): Promise<void> {
  const history = new HistoryFile(task.history);
  const random = new SeededRandom(task.seed);
  const application = await NestFactory.createApplicationContext(
    RedisLockModule.forRoot({
      connection: task.redisUrl,
      leaseMs: LEASE_MS,
      waitMs: WAIT_MS,
      lingerMs: task.lingerMs,
      localHandovers: task.localHandovers,
    }),
    { logger: false },
  );
  const locks = application.get(LockService);
  const saboteur = task.breakRule ? new Redis(task.redisUrl) : undefined;
  let running = true;
  process.on('message', () => (running = false));
  process.send?.('ready');

  const caller = async (name: string): Promise<void> => {
    for (let n = 1; running; n++) {
      const call = `${name}/${n}`;
      const key = random.pick(task.keys);
      history.append({ kind: 'asked', at: monotonicMs(), call, key });
      try {
        const lock = await locks.acquire(key);
        history.append({ kind: 'held', at: monotonicMs(), call, key, token: lock.fencingToken });
        await work(
          call,
          lock,
          random.chance(0.05) ? random.between(0, LEASE_MS * 2) : random.between(0, 15),
        );
        // The broken rule: a release that does not ask whose lock it is.
        if (random.chance(0.2)) void saboteur?.del(`lock:{${key}}`).catch(() => {});
      } catch (error) {
        const code = error instanceof LockError ? error.code : String(error);
        history.append({ kind: 'refused', at: monotonicMs(), call, code });
      }
      await sleep(random.between(0, 20));
    }
  };

  const work = async (call: string, lock: Lock, ms: number): Promise<void> => {
    let validUntil = -Infinity;
    let lost: string | undefined;
    // A process that blocks or is killed cannot say when its hold was over: it says beforehand how long it may last.
    const noteDeadline = (): void => {
      if (!lock.isHeld) return;
      const until = monotonicMs() + lock.remainingMs();
      if (until < validUntil + 1) return;
      validUntil = until;
      history.append({ kind: 'valid', at: monotonicMs(), call, until });
    };
    noteDeadline();
    lock.signal.addEventListener(
      'abort',
      () => (lost = String((lock.signal.reason as Error).message)),
    );
    const end = monotonicMs() + ms;
    while (lost === undefined && monotonicMs() < end) {
      await sleep(Math.min(10, Math.max(0, end - monotonicMs())));
      noteDeadline();
    }
    if (random.chance(0.005)) block(random.between(10, LEASE_MS * 1.5));
    noteDeadline();
    if (!lock.isHeld) lost ??= 'noticed at the end';
    history.append({ kind: 'ended', at: monotonicMs(), call, lost });
    await lock.release().catch(() => false); // not answered: it ends by itself
  };

  await Promise.all(Array.from({ length: task.callers }, (_, i) => caller(`${task.name}/${i}`)));
  saboteur?.disconnect();
  await application.close();
  process.disconnect();
}

/** A handler that does not let the event loop go. */
function block(ms: number): void {
  const end = monotonicMs() + ms;
  while (monotonicMs() < end);
}

await main(JSON.parse(process.argv[2] as string) as WorkerTask);
