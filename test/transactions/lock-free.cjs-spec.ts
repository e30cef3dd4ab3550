import { describe, expect, it } from '@jest/globals';
import type { Propagation } from '@nestjs-cls/transactional';
import { TransactionalAdapterTypeOrm } from '@nestjs-cls/transactional-adapter-typeorm';
import { lockAwareAdapter } from 'nestjs-locked/nestjs-cls';
import { DataSource } from 'typeorm';
import { EventEmitter } from 'node:events';
import { afterTest } from '../support/after-test.js';
import { usePostgres } from '../support/databases.js';
import { useRedis } from '../support/shared-redis.js';
import { clsOrm, POOL_SIZE } from './cls-orm.js';
import { startLocks } from './locks.js';
import type { Runs } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();

/** Opens transactions with the adapter, as nestjs-cls has it or known to the locks. */
const opened = async (isLockAware: boolean) => {
  const orm = await clsOrm('TypeORM', async (url) => {
    const dataSource = await new DataSource({
      type: 'postgres',
      url,
      poolSize: POOL_SIZE,
    }).initialize();
    const adapter = new TransactionalAdapterTypeOrm({ dataSourceToken: DataSource });
    return {
      adapter: isLockAware ? lockAwareAdapter(adapter) : adapter,
      connection: dataSource,
      isolated: () => ({}),
      runs: (tx: Runs) => tx,
      close: () => dataSource.destroy(),
    };
  }).open(postgres.url);
  afterTest(() => orm.close());
  return orm;
};

interface Shop {
  /** Writes a line in the transaction of the context. */
  write(line: string): Promise<unknown>;
  /** In the middle of a transaction. */
  commit(): Promise<unknown>;
  in<R>(propagation: Propagation, work: () => Promise<R>): Promise<R>;
}

const fail = (): Promise<never> => Promise.reject(new Error('sold out'));
const P = (name: string): Propagation => name as Propagation;

/** Programs that use no lock, and may fail. What they write and what they get is all that counts. */
const PROGRAMS: Record<string, (shop: Shop) => Promise<unknown>> = {
  ...Object.fromEntries(
    [
      'REQUIRED',
      'REQUIRES_NEW',
      'NESTED',
      'SUPPORTS',
      'MANDATORY',
      'NEVER',
      'NOT_SUPPORTED',
    ].flatMap((inner) =>
      [true, false].map((succeeds) => [
        `${inner} inside, and the outer one ${succeeds ? 'commits' : 'fails'}`,
        (shop: Shop) =>
          shop.in(P('REQUIRED'), async () => {
            await shop.write('outer');
            await shop.in(P(inner), () => shop.write('inner')).catch(() => shop.write('caught'));
            if (!succeeds) await fail();
            return 'done';
          }),
      ]),
    ),
  ),
  'a listener audits a failed transaction in one of its own': (shop) => {
    const events = new EventEmitter();
    const audits: Promise<unknown>[] = [];
    events.on('failed', () => {
      audits.push(shop.in(P('REQUIRES_NEW'), () => shop.write('audit')));
    });
    return shop
      .in(P('REQUIRED'), async () => {
        setTimeout(() => events.emit('failed'), 200); // keeps the context of the transaction
        await shop.write('sale');
        await fail();
      })
      .catch(async () => {
        events.emit('failed');
        await new Promise((resolve) => setTimeout(resolve, 400));
        return Promise.all(audits);
      });
  },
  'a transaction begins while the one around it is rolled back': async (shop) => {
    let audit: Promise<unknown> = Promise.resolve();
    const sale = shop.in(P('REQUIRED'), async () => {
      await shop.write('sale');
      audit = new Promise((resolve, reject) => {
        // The ROLLBACK is sent before that, and answered after it.
        setImmediate(() => {
          shop.in(P('REQUIRES_NEW'), () => shop.write('audit')).then(resolve, reject);
        });
      });
      await fail();
    });
    await sale.catch(() => {});
    return audit.then(() => 'written');
  },
  'a branch continues after its transaction has failed': async (shop) => {
    let branch: Promise<unknown> = Promise.resolve();
    const sale = shop.in(P('REQUIRED'), async () => {
      branch = new Promise((resolve) => setTimeout(resolve, 200))
        .then(() => shop.in(P('REQUIRES_NEW'), () => shop.write('late')))
        .then(() => 'written');
      await shop.write('sale');
      await fail();
    });
    const told = await sale.catch((error: Error) => error.message);
    return [told, await branch.catch((error: Error) => error.name)];
  },
  'parallel branches, one of which fails': (shop) =>
    shop.in(P('REQUIRED'), async () => {
      const settled = await Promise.allSettled([
        shop.in(P('NESTED'), () => shop.write('a')),
        shop.in(P('REQUIRES_NEW'), async () => {
          await shop.write('b');
          await fail();
        }),
      ]);
      return settled.map(({ status }) => status);
    }),
  'a body that ends its transaction itself': (shop) =>
    shop.in(P('REQUIRED'), async () => {
      await shop.write('before');
      await shop.commit();
      await shop.write('after');
      return 'done';
    }),
};

describe('code without locks behaves as without the library', () => {
  it.each(Object.entries(PROGRAMS))('%s', async (_, program) => {
    const outcomes = [];
    for (const isLockAware of [false, true]) {
      const orm = await opened(isLockAware);
      if (isLockAware) await startLocks(redis.url, { fence: true, insideTransaction: 'restart' });
      await postgres.query('DROP TABLE IF EXISTS lines');
      await postgres.query('CREATE TABLE lines (id serial, line text)');
      const shop: Shop = {
        write: (line) => orm.tx().query('INSERT INTO lines (line) VALUES ($1)', [line]),
        commit: () => orm.tx().query('COMMIT', []),
        in: (propagation, work) => orm.run(propagation, work),
      };
      const told = await program(shop).catch((error: Error) => `${error.name}: ${error.message}`);
      const lines = await postgres.query<{ line: string }>('SELECT line FROM lines ORDER BY line');
      outcomes.push({ told, lines: lines.map(({ line }) => line) });
    }
    expect(outcomes[1]).toEqual(outcomes[0]);
  });
});
