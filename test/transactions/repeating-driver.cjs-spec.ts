import { describe, expect, it } from '@jest/globals';
import { ClsPluginTransactional, TransactionHost } from '@nestjs-cls/transactional';
import { ClsModule } from 'nestjs-cls';
import {
  type LockOptions,
  LockService,
  RedisLockModule,
  type RedisLockModuleOptions,
} from 'nestjs-locked';
import { lockAwareAdapter } from 'nestjs-locked/nestjs-cls';
import type { DataSource, EntityManager } from 'typeorm';
import { usePostgres } from '../support/databases.js';
import { startNest } from '../support/nest-app.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { isHeld } from './locks.js';
import { useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);

const held = (): Promise<boolean> => isHeld(redis.url, stock.key);

type Body = () => Promise<unknown>;

/** As the drivers of MongoDB do it: the first run fails when it is to be committed, and the body is called again. */
function repeatingTransaction(dataSource: DataSource) {
  return {
    wrapWithTransaction: async (_: unknown, body: Body, setTx: (tx: EntityManager) => void) => {
      const run = (end: () => void): Promise<unknown> =>
        dataSource.transaction(async (manager) => {
          setTx(manager);
          const result = await body();
          end();
          return result;
        });
      try {
        return await run(() => {
          throw new Error('transient');
        });
      } catch (error) {
        if ((error as Error).message !== 'transient') throw error;
        return run(() => {});
      }
    },
    getFallbackInstance: () => dataSource.manager,
  };
}

const start = async (
  options: Omit<RedisLockModuleOptions, 'connection'> = {},
): Promise<{ host: TransactionHost<never>; locks: LockService }> => {
  const connection = await openDataSource('postgres', postgres.settings);
  const adapter = lockAwareAdapter({ connection, optionsFactory: repeatingTransaction });
  const app = await startNest({
    imports: [
      ClsModule.forRoot({ plugins: [new ClsPluginTransactional({ adapter })] }),
      RedisLockModule.forRoot({ connection: redis.url, ...options }),
    ],
  });
  return { host: app.get(TransactionHost), locks: app.get(LockService) };
};

describe('a driver that repeats the body by itself', () => {
  it('claims for each run, and keeps the lock around until the last', async () => {
    const { host, locks } = await start({ fence: {} });
    let runs = 0;
    await Promise.all(
      Array.from({ length: 5 }, () =>
        locks.withLock(stock.key, () =>
          host.withTransaction(async () => {
            runs++;
            await stock.takeOne(host.tx);
          }),
        ),
      ),
    );
    expect([runs, await held(), await stock.quantity()]).toEqual([10, false, 95]);
  });

  it('takes a lock that was requested inside again in each run', async () => {
    const { host, locks } = await start({ fence: {}, insideTransaction: 'restart' });
    await Promise.all(
      Array.from({ length: 5 }, () =>
        host.withTransaction(async () => {
          await locks.withLock(stock.key, () => stock.takeOne(host.tx));
          expect(await held()).toBe(true);
        }),
      ),
    );
    expect([await held(), await stock.quantity()]).toEqual([false, 95]);
  });

  it('waits inside for it under join', async () => {
    const { host, locks } = await start({ insideTransaction: 'join' });
    const options: LockOptions = { waitMs: 5_000 };
    await Promise.all(
      Array.from({ length: 3 }, () =>
        host.withTransaction(() =>
          locks.withLock(stock.key, options, () => stock.takeOne(host.tx)),
        ),
      ),
    );
    expect([await held(), await stock.quantity()]).toEqual([false, 97]);
  });

  it('finds no key taken for the work of the run before', async () => {
    const { host, locks } = await start({ insideTransaction: 'join' });
    const options = { waitMs: 0, onBusy: 'skip', holdAtLeastMs: 3_000 } as const;
    await host.withTransaction(() =>
      locks.withLock(stock.key, options, () => stock.takeOne(host.tx)),
    );
    expect([await held(), await stock.quantity()]).toEqual([true, 99]);
  });
});
