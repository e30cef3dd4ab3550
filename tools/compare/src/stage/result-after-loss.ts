import { Injectable } from '@nestjs/common';
import { Locked, RedisLockModule } from 'nestjs-locked';
import type { Outcome, Scenario } from '../scenario.js';
import { startApplication } from './application.js';
import { murlockModule, SETTINGS } from './peer-modules.js';
import { connect, RedisServer } from './redis.js';
import { type Settled, settled } from './settled.js';

const LIMIT_MS = 10_000;

export class OutOfStock extends Error {}

/** What the work does once its lock is gone, and whether its caller got that. */
export interface EndAfterLoss {
  readonly title: string;
  /** How the sentence about the workload ends. */
  readonly andThen: string;
  end(): string;
  judge(result: Settled<unknown>): Outcome;
}

/** The lock is gone before the work ends: its key is deleted, as after a failover. */
export function scenarioAfterLoss({ title, andThen, end, judge }: EndAfterLoss): Scenario {
  return {
    title,
    workload: `The lock is lost (its key is deleted, as after a failover); then the work ${andThen}.`,
    peers: [
      {
        library: 'redlock',
        settings: '`using` with the defaults and 5 s.',
        async run() {
          const { default: Redlock } = await import('redlock');
          const redis = await connect(await RedisServer.start());
          const redlock = new Redlock([redis as never]);
          redlock.on('error', () => {});
          const call = redlock.using(['stock:42'], 5_000, async () => {
            await redis.flushall();
            return end();
          });
          return judge(await settled(call, LIMIT_MS));
        },
      },
      {
        library: '@sesamecare-oss/redlock',
        settings: '`using` with the defaults and 5 s.',
        async run() {
          const { Redlock } = await import('@sesamecare-oss/redlock');
          const redis = await connect(await RedisServer.start());
          const redlock = new Redlock([redis]);
          redlock.on('error', () => {});
          const call = redlock.using(['stock:42'], 5_000, async () => {
            await redis.flushall();
            return end();
          });
          return judge(await settled(call, LIMIT_MS));
        },
      },
      {
        library: 'murlock',
        settings: SETTINGS.murlock,
        note: '`ignoreUnlockFail: true` avoids this, but hides all other failed releases.',
        async run() {
          const { MurLock } = await import('murlock');
          const server = await RedisServer.start();
          const redis = await connect(server);
          @Injectable()
          class StockService {
            @MurLock(5000, 'id')
            async take(id: string): Promise<string> {
              if (id === '42') await redis.flushall();
              return end();
            }
          }
          const app = await startApplication({
            imports: [await murlockModule(server)],
            providers: [StockService],
          });
          return judge(await settled(app.get(StockService).take('42'), LIMIT_MS));
        },
      },
    ],
    ours: {
      settings: 'The defaults.',
      async run() {
        const server = await RedisServer.start();
        const redis = await connect(server);
        @Injectable()
        class StockService {
          @Locked('stock:<id>')
          async take(id: string): Promise<string> {
            if (id === '42') await redis.flushall();
            return end();
          }
        }
        const app = await startApplication({
          imports: [RedisLockModule.forRoot({ connection: server.url })],
          providers: [StockService],
        });
        return judge(await settled(app.get(StockService).take('42'), LIMIT_MS));
      },
    },
  };
}

/** Whether the caller got the error that the work has thrown. */
export function judgeError(result: Settled<unknown>): Outcome {
  const holds = result.state === 'rejected' && result.error instanceof OutOfStock;
  const got = result.state === 'rejected' ? result.error.constructor.name : result.state;
  return {
    holds,
    figure: got,
    words: holds
      ? 'The caller got the error of the work.'
      : `The error of the work was replaced${result.state === 'rejected' ? ` by "${result.error.message}"` : ''}, ${result.afterMs} ms later.`,
  };
}

/** Whether the caller got the result of the work, which had been done. */
export function judgeResult(result: Settled<unknown>): Outcome {
  const holds = result.state === 'fulfilled';
  return {
    holds,
    figure: holds
      ? 'the result'
      : result.state === 'rejected'
        ? result.error.constructor.name
        : 'nothing',
    words: holds
      ? 'The caller got the result.'
      : result.state === 'rejected'
        ? `The work was done; the caller got "${result.error.message}" after ${result.afterMs} ms.`
        : `The work was done, and the caller had no answer after ${result.afterMs} ms.`,
  };
}
