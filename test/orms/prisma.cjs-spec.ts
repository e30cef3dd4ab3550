import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { TransactionalAdapterPrisma } from '@nestjs-cls/transactional-adapter-prisma';
import { PrismaPg } from '@prisma/adapter-pg';
import { lockAwareAdapter } from 'nestjs-locked/nestjs-cls';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterTest } from '../support/after-test.js';
import { usePostgres } from '../support/databases.js';
import { useRedis } from '../support/shared-redis.js';
import { isHeld, startLocks } from '../transactions/locks.js';
import { useStock } from '../transactions/stock.js';
import { clsOrm, type ClsParts, openPool } from './cls-orm.js';
import { describeLockContract } from './lock-contract.js';
import type { Isolation } from './orm-under-test.js';
import {
  type GeneratedPrisma,
  generatePrismaClient,
  type PrismaClient,
  type PrismaTx,
} from './prisma-client.js';
import { describePropagation } from './propagation-suite.js';

let generated: GeneratedPrisma;

beforeAll(async () => void (generated = await generatePrismaClient()));
afterAll(() => generated.remove());

const LEVELS: Record<Isolation, string> = {
  'read committed': 'ReadCommitted',
  'repeatable read': 'RepeatableRead',
  serializable: 'Serializable',
};

const prisma = (url: string, options: object = {}): ClsParts => {
  const pool = openPool(url);
  const adapter = new PrismaPg(pool, { disposeExternalPool: true });
  const client = new generated.PrismaClient({ adapter, ...options });
  return {
    adapter: lockAwareAdapter(
      new TransactionalAdapterPrisma<PrismaClient>({
        prismaInjectionToken: 'prisma',
        sqlFlavor: 'postgresql',
      }),
      { pool },
    ),
    connection: client,
    isolated: (isolation) => ({ isolationLevel: LEVELS[isolation] }),
    runs: (tx: PrismaTx) => ({
      query: (sql, params: unknown[]) => tx.$queryRawUnsafe(sql, ...params),
    }),
    close: () => client.$disconnect(),
  };
};

// As many transactions wait as there are connections, and the machine may be busy.
const PRISMA = clsOrm('Prisma', (url) =>
  prisma(url, { transactionOptions: { maxWait: 10_000, timeout: 10_000 } }),
);

describeLockContract(PRISMA, { roundTrips: 0 });
describePropagation(PRISMA);

describe('Prisma', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  const open = async (options: object = {}) => {
    const orm = await clsOrm('Prisma', (url) => prisma(url, options)).open(postgres.url);
    afterTest(() => orm.close());
    return orm;
  };

  it.each([
    [{}, 5_000],
    [{ transactionOptions: { timeout: 1_234 } }, 1_234],
  ])('has a time-out even if none was given: %j', async (options, timeoutMs) => {
    const orm = await open(options);
    const { locks } = await startLocks(redis.url);
    const sale = orm.transaction(() => locks.withLock(stock.key, async () => {}));
    await expect(sale).rejects.toThrow(`burn the transaction's ${timeoutMs} ms`);
  });

  it('is also recognised as an extended client', async () => {
    const orm = await clsOrm('Prisma', (url) => {
      const parts = prisma(url);
      const client = parts.connection as { $extends(extension: object): object };
      return { ...parts, connection: client.$extends({ name: 'of the application' }) };
    }).open(postgres.url);
    afterTest(() => orm.close());
    const { locks } = await startLocks(redis.url, { fence: {}, insideTransaction: 'restart' });
    await orm.transaction((tx) => locks.withLock(stock.key, () => stock.takeOne(tx)));
    expect(await stock.fence()).toBeGreaterThan(0);
    expect(await stock.quantity()).toBe(99);
  });

  it('releases the lock at once if it has ended the transaction itself', async () => {
    const orm = await open({ transactionOptions: { timeout: 100 } });
    const { locks } = await startLocks(redis.url, { fence: {} });
    const sale = locks.withLock(stock.key, () =>
      orm.transaction(async (tx) => {
        await stock.takeOne(tx, 0);
        await sleep(300);
      }),
    );
    await expect(sale).rejects.toMatchObject({ code: 'P2028' });
    expect([await isHeld(redis.url, stock.key), await stock.quantity()]).toEqual([false, 100]);
  });
});
