import { beforeEach, describe, expect, it } from '@jest/globals';
import type { Propagation } from '@nestjs-cls/transactional';
import { TransactionalAdapterTypeOrm } from '@nestjs-cls/transactional-adapter-typeorm';
import { LockAbortedError, LockLostError, LockNotAcquiredError } from 'nestjs-locked';
import { lockAwareAdapter } from 'nestjs-locked/nestjs-cls';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import { DataSource } from 'typeorm';
import { EventEmitter } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterTest } from '../support/after-test.js';
import { usePostgres } from '../support/databases.js';
import { makeGate } from '../support/gate.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';
import { openDataSource } from '../transactions/data-source.js';
import { isHeld, startLocks } from '../transactions/locks.js';
import { type Runs, useStock } from '../transactions/stock.js';
import { clsOrm, POOL_SIZE } from './cls-orm.js';
import { type LockModuleOptions, RESTARTING_ORMS, type StartedOrm } from './restarting-orms.js';
import { useSales } from './sales.js';

describe('code without locks', () => {
  const redis = useRedis();
  const postgres = usePostgres();

  /** Opens transactions with the adapter of nestjs-cls, lock-aware or not. */
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
    /** Commits in the middle of a transaction. */
    commit(): Promise<unknown>;
    in<R>(propagation: Propagation, work: () => Promise<R>): Promise<R>;
  }

  const fail = (): Promise<never> => Promise.reject(new Error('sold out'));
  const P = (name: string): Propagation => name as Propagation;

  /** Programs that use no lock, and may fail. Only what they write and return counts. */
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
          // The ROLLBACK has been sent by then, and is answered later.
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
        const lines = await postgres.query<{ line: string }>(
          'SELECT line FROM lines ORDER BY line',
        );
        outcomes.push({ told, lines: lines.map(({ line }) => line) });
      }
      expect(outcomes[1]).toEqual(outcomes[0]);
    });
  });
});

describe('a read before the lock', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  async function read(tx: Runs): Promise<number> {
    const sql = 'SELECT quantity FROM stock WHERE id = $1';
    const [row] = (await tx.query(sql, [stock.product])) as { quantity: number }[];
    return row?.quantity as number;
  }

  const write = (tx: Runs, quantity: number): Promise<unknown> =>
    tx.query('UPDATE stock SET quantity = $1 WHERE id = $2', [quantity, stock.product]);

  describe.each(RESTARTING_ORMS.map((orm) => [orm.name, orm] as const))(
    'reads at READ COMMITTED before a lock was requested, with %s',
    (_, orm) => {
      it.each([{}, { fence: {} }])(
        'are repeated under it, even if it is free: %j [R57, D66]',
        async (fenced) => {
          const { locks, transaction } = await orm.start(redis.url, postgres, {
            insideTransaction: 'restart',
            ...fenced,
          });
          let runs = 0;
          await transaction(async (tx) => {
            const before = await read(tx());
            if (runs++ === 0) {
              // Another caller sells one piece, and has released the lock when it is requested.
              await postgres.query('UPDATE stock SET quantity = 99 WHERE id = $1', [stock.product]);
            }
            await locks.withLock(stock.key, () => write(tx(), before - 1));
          });
          expect([runs, await stock.quantity()]).toEqual([2, 98]);
        },
      );

      it('are not repeated if the lock is taken inside, where a sale is lost: the control [D66]', async () => {
        const { locks, transaction } = await orm.start(redis.url, postgres, {
          insideTransaction: 'join',
        });
        await transaction(async (tx) => {
          const before = await read(tx());
          await postgres.query('UPDATE stock SET quantity = 99 WHERE id = $1', [stock.product]);
          await locks.withLock(stock.key, () => write(tx(), before - 1));
        });
        expect(await stock.quantity()).toBe(99); // two were sold
      });

      it('may be old under join, which protects only reads under the lock [D66]', async () => {
        const { locks, transaction } = await orm.start(redis.url, postgres, {
          insideTransaction: 'join',
        });
        await transaction(async (tx) => {
          const before = await read(tx());
          await postgres.query('UPDATE stock SET quantity = 50 WHERE id = $1', [stock.product]);
          await locks.withLock(stock.key, async () => {
            expect([before, await read(tx())]).toEqual([100, 50]);
            await write(tx(), (await read(tx())) - 1);
          });
        });
        expect(await stock.quantity()).toBe(49);
      });
    },
  );
});

describe('combinations', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  const { note, count: sales } = useSales(postgres, stock);

  let other: string;
  beforeEach(() => void (other = uniqueKey('other')));

  const held = (key: string): Promise<boolean> => isHeld(redis.url, key);

  /** A signal that aborts when the call is certainly waiting, even on a busy machine. */
  function soonAborted(): AbortSignal {
    const controller = new AbortController();
    setTimeout(() => controller.abort(), 1_500);
    return controller.signal;
  }

  const [TYPEORM, , , , , PG] = RESTARTING_ORMS;

  describe.each([TYPEORM!, PG!].map((orm) => [orm.name, orm] as const))(
    'what nobody has written down, with %s',
    (_, orm) => {
      const start = (options: LockModuleOptions = {}): Promise<StartedOrm> =>
        orm.start(redis.url, postgres, { insideTransaction: 'restart', ...options });

      it.each(['told', 'swallowed'])('a restart that waits is aborted: %s [D83]', async (how) => {
        const { locks, transaction } = await start();
        const busy = await locks.acquire(stock.key);
        const signal = soonAborted();
        const sale = transaction(async (tx) => {
          await locks.withLock(other, () => note(tx()));
          const asking = locks.withLock(stock.key, { signal }, () => stock.takeOne(tx()));
          await (how === 'told' ? asking : asking.catch(() => {}));
        });
        await expect(sale).rejects.toBeInstanceOf(LockAbortedError);
        expect([await sales(), await held(other)]).toEqual([0, false]);
        await busy.release();
      });

      it('waitMs runs out in a later run [D83]', async () => {
        const { locks, transaction } = await start();
        const busy = await locks.acquire(other);
        let runs = 0;
        const sale = transaction(async (tx) => {
          runs++;
          await locks.withLock(stock.key, async () => {
            await stock.takeOne(tx());
            await locks.withLock(other, { waitMs: 200 }, () => note(tx()));
          });
        });
        await expect(sale).rejects.toBeInstanceOf(LockNotAcquiredError);
        expect([runs, await stock.quantity(), await held(stock.key)]).toEqual([2, 100, false]);
        await busy.release();
      });

      it.each([{}, { fence: {} }])('forceRelease before the gate: %j [D83]', async (fenced) => {
        const { locks, transaction } = await start(fenced);
        const sale = transaction(async (tx) => {
          await locks.withLock(stock.key, () => stock.takeOne(tx()));
          await locks.forceRelease(stock.key);
        });
        await expect(sale).rejects.toBeInstanceOf(LockLostError);
        expect(await stock.quantity()).toBe(100);
      });

      it('every branch swallows its restart [D83]', async () => {
        const { locks, transaction } = await start();
        await transaction(async (tx) => {
          await Promise.allSettled([
            locks.withLock(stock.key, () => stock.takeOne(tx())),
            locks.withLock(other, () => note(tx())),
            note(tx()),
          ]);
        });
        expect([await stock.quantity(), await sales()]).toEqual([99, 2]);
      });

      it('one branch that waits under join is aborted, and the other continues', async () => {
        const { locks, transaction } = await start({ insideTransaction: 'join' });
        const busy = await locks.acquire(stock.key);
        const signal = soonAborted();
        const outcomes = await transaction((tx) =>
          Promise.allSettled([
            locks.withLock(stock.key, { signal }, () => stock.takeOne(tx())),
            locks.withLock(other, () => note(tx())),
          ]),
        );
        expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'fulfilled']);
        expect([await stock.quantity(), await sales(), await held(other)]).toEqual([100, 1, false]);
        await busy.release();
      });

      it('parallel transactions under one lock are all restarted for another one', async () => {
        const { locks, transaction } = await start({ fence: {} });
        await locks.withLock(stock.key, () =>
          Promise.all(
            Array.from({ length: 6 }, () =>
              transaction(async (tx) => {
                await stock.takeOne(tx());
                await locks.withLock(other, () => note(tx()));
              }),
            ),
          ),
        );
        expect([await stock.quantity(), await sales()]).toEqual([94, 6]);
      });
    },
  );

  describe('a restart that waits for its lock', () => {
    it('is refused when the application closes [D83]', async () => {
      const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings));
      const { app, locks } = await startLocks(redis.url, { insideTransaction: 'restart' });
      const busy = await (await startLocks(redis.url)).locks.acquire(stock.key);
      const asked = makeGate();
      const sale = dataSource.transaction(async (manager) => {
        await note(manager);
        asked.open();
        await locks.withLock(stock.key, () => stock.takeOne(manager));
      });
      const refused = expect(sale).rejects.toThrow(/the application is shutting down/);
      await asked.opened;
      await sleep(50);
      await app.close();
      await refused;
      expect(await sales()).toBe(0);
      await busy.release();
    });
  });
});
