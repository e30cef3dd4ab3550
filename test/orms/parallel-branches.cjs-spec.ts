import { beforeEach, describe, expect, it } from '@jest/globals';
import { Propagation } from '@nestjs-cls/transactional';
import { LockInTransactionError } from 'nestjs-locked';
import pg from 'pg';
import { AsyncResource } from 'node:async_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterTest } from '../support/after-test.js';
import { usePostgres } from '../support/databases.js';
import { makeGate } from '../support/gate.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';
import { isHeld, startLocks } from '../transactions/locks.js';
import { type Runs, useStock } from '../transactions/stock.js';
import { DRIZZLE } from './drizzle-with-cls.js';
import { type LockModuleOptions, RESTARTING_ORMS, type StartedOrm } from './restarting-orms.js';
import { useSales } from './sales.js';

describe('branches of one call', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  const { note, count: sales } = useSales(postgres, stock);

  let other: string;
  beforeEach(() => void (other = uniqueKey('other')));

  const PIECES = 4;

  /**
   * Runs three branches: one sells under the lock, one writes without a lock, one requests a second lock a little
   * later.
   */
  async function sellInBranches({ locks, transaction }: StartedOrm): Promise<void> {
    await transaction(async (tx) => {
      await Promise.all([
        locks.withLock(stock.key, async () => {
          for (let n = 0; n < PIECES; n++) await stock.takeOne(tx(), 2);
        }),
        (async () => {
          for (let n = 0; n < PIECES; n++) {
            await sleep(3);
            await note(tx());
          }
        })(),
        sleep(4).then(() => locks.withLock(other, () => sleep(5))),
      ]);
    });
  }

  const errorOf = (promise: Promise<unknown>): Promise<unknown> =>
    promise.then(
      () => undefined,
      (error: unknown) => error,
    );

  describe.each(RESTARTING_ORMS.map((orm) => [orm.name, orm] as const))(
    'branches of a transaction that is restarted, with %s',
    (_, orm) => {
      const start = (options: LockModuleOptions = {}): Promise<StartedOrm> =>
        orm.start(redis.url, postgres, { insideTransaction: 'restart', ...options });

      it.each([{}, { fence: {} }])(
        'write exactly what is acknowledged: %j [R58, D63]',
        async (fenced) => {
          const started = await start(fenced);
          const outcomes = await Promise.allSettled(
            Array.from({ length: 6 }, () => sellInBranches(started)),
          );
          const told = outcomes.filter(({ status }) => status === 'fulfilled').length;
          await sleep(50); // for statements that come too late
          expect(told).toBe(6);
          expect([await stock.quantity(), await sales()]).toEqual([
            100 - told * PIECES,
            told * PIECES,
          ]);
        },
      );

      it('are waited for before the rollback, if they are locked [R59, D63]', async () => {
        const { locks, transaction } = await start();
        const busy = await locks.acquire(other);
        const events: string[] = [];
        const [sells, done] = [makeGate(), makeGate()];
        const sale = locks.withLock(stock.key, () =>
          transaction(async () => {
            events.push('run');
            await Promise.all([
              locks.withLock(stock.key, async () => {
                sells.open();
                await done.opened;
                await sleep(20);
                events.push('locked branch ended');
              }),
              sells.opened.then(() => locks.withLock(other, async () => {})),
            ]);
          }),
        );
        await sells.opened;
        await busy.release();
        await sleep(100);
        expect(events).toEqual(['run']);
        done.open();
        await sale;
        expect(events).toEqual(['run', 'locked branch ended', 'run', 'locked branch ended']);
      });

      it('send nothing more after the decision, locked or not [D63]', async () => {
        const { locks, transaction } = await start();
        let runs = 0;
        const errors: unknown[] = [];
        await locks.withLock(stock.key, () =>
          transaction(async (tx) => {
            if (runs++ > 0) return locks.withLock(other, () => note(tx()));
            const asked = makeGate();
            const late = async (): Promise<void> => {
              await asked.opened;
              await note(tx());
            };
            const branches = [late(), locks.withLock(stock.key, late)];
            for (const branch of branches) branch.catch((error: unknown) => errors.push(error));
            const asking = locks.withLock(other, async () => {});
            asked.open();
            return asking;
          }),
        );
        expect([runs, await sales()]).toEqual([2, 1]);
        // What Knex sends before its ROLLBACK is rolled back. After it, Knex itself refuses statements.
        expect(errors).toHaveLength(orm.name.startsWith('Knex') ? 1 : 2);
      });

      it('cannot reach the database when the next run has begun, or ended [R58]', async () => {
        const { locks, transaction } = await start();
        let runs = 0;
        const [second, over] = [makeGate(), makeGate()];
        const late: Promise<unknown>[] = [];
        await transaction(async (tx) => {
          if (runs++ === 0) {
            for (const gate of [second, over]) {
              late.push(
                errorOf(gate.opened.then(() => note(tx()))),
                errorOf(gate.opened.then(() => locks.withLock(stock.key, () => note(tx())))),
                errorOf(gate.opened.then(() => transaction((inner) => note(inner())))),
              );
            }
          }
          await locks.withLock(other, async () => {
            second.open();
            await sleep(30);
            await note(tx());
          });
        });
        over.open();
        expect((await Promise.all(late)).filter((error) => error === undefined)).toEqual([]);
        expect([runs, await sales()]).toEqual([2, 1]);
      });

      it('get no lock after the decision', async () => {
        const { locks, transaction } = await start();
        let runs = 0;
        const ran: string[] = [];
        await locks.withLock(stock.key, () =>
          transaction(async () => {
            if (runs++ > 0) return locks.withLock(other, async () => ran.push('other'));
            const asking = locks.withLock(other, async () => ran.push('other'));
            asking.catch(() => {});
            const joining = locks.withLock(stock.key, async () => ran.push('joined'));
            return Promise.all([asking, joining]);
          }),
        );
        expect(ran).toEqual(['other']);
      });
    },
  );

  describe.each(RESTARTING_ORMS.map((orm) => [orm.name, orm] as const))(
    'branches of a transaction that fails, with %s',
    (_, orm) => {
      const start = (): Promise<StartedOrm> => orm.start(redis.url, postgres, {});

      it('are waited for if they are locked, and write nothing', async () => {
        const { locks, transaction } = await start();
        let late: Promise<unknown> | undefined;
        const failing = locks.withLock(stock.key, () =>
          transaction(async (tx) => {
            late = errorOf(
              locks.withLock(stock.key, async () => {
                await sleep(50);
                await note(tx());
              }),
            );
            await sleep(10);
            throw new Error('over');
          }),
        );
        await expect(failing).rejects.toThrow('over');
        await late;
        expect([await sales(), await isHeld(redis.url, stock.key)]).toEqual([0, false]);
      });

      it('cannot reach the database when it was rolled back [D65]', async () => {
        const { locks, transaction } = await start();
        const over = makeGate();
        const late: Promise<unknown>[] = [];
        const failing = locks.withLock(`${stock.key}:around`, () =>
          transaction(async (tx) => {
            await note(tx());
            late.push(
              errorOf(over.opened.then(() => note(tx()))),
              errorOf(over.opened.then(() => locks.withLock(stock.key, () => note(tx())))),
            );
            throw new Error('over');
          }),
        );
        await expect(failing).rejects.toThrow('over');
        over.open();
        expect((await Promise.all(late)).filter((error) => error === undefined)).toEqual([]);
        await transaction((tx) => note(tx())); // its caller continues
        expect(await sales()).toBe(1);
      });

      it('are not committed in part: a locked call that nobody awaits forbids the commit [R59, D64]', async () => {
        const { locks, transaction } = await start();
        const [begun, done] = [makeGate(), makeGate()];
        const forgetful = locks.withLock(stock.key, () =>
          transaction(async (tx) => {
            await note(tx());
            void errorOf(
              locks.withLock(stock.key, async () => {
                begun.open();
                await done.opened;
                await sleep(30);
                await note(tx());
              }),
            );
            await begun.opened;
            done.open();
          }),
        );
        await expect(forgetful).rejects.toThrow(/a locked call inside it still runs/);
        expect(await sales()).toBe(0);
      });
    },
  );

  describe('an unguarded transaction: the control', () => {
    it("a branch's statements after the rollback are committed on their own [D63]", async () => {
      const pool = new pg.Pool({ connectionString: postgres.url, max: 1 });
      afterTest(() => pool.end());
      const client = await pool.connect();
      const over = makeGate();
      await client.query('BEGIN');
      const branch = over.opened.then(() => note(client));
      await client.query('ROLLBACK');
      client.release();
      over.open();
      await branch;
      expect(await sales()).toBe(1);
    });
  });

  describe('a locked branch that does not end', () => {
    it.each([
      ['is not restarted', 'restart'],
      ['fails', 'fail'],
    ] as const)(
      'beside it the transaction %s, after 5 s, and writes nothing [D64]',
      async (_, how) => {
        const [typeorm] = RESTARTING_ORMS;
        const { locks, transaction } = await typeorm!.start(redis.url, postgres, {
          insideTransaction: 'restart',
        });
        const never = makeGate();
        let runs = 0;
        let late: Promise<unknown> | undefined;
        const startedAt = performance.now();
        const failing = locks.withLock(stock.key, () =>
          transaction(async (tx) => {
            runs++;
            const endless = locks.withLock(stock.key, async () => {
              await never.opened;
              await note(tx());
            });
            late = errorOf(endless);
            await sleep(10);
            if (how === 'fail') throw new Error('over');
            await locks.withLock(other, () => note(tx()));
          }),
        );
        await expect(failing).rejects.toBeInstanceOf(LockInTransactionError);
        await expect(failing).rejects.toThrow(/has not ended in 5000 ms/);
        expect(performance.now() - startedAt).toBeLessThan(9_000);
        never.open();
        expect(await late).toBeDefined();
        expect([runs, await sales()]).toEqual([1, 0]);
      },
    );
  });
});

describe('savepoints of branches', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  type Opened = Awaited<ReturnType<typeof DRIZZLE.open>>;

  async function open(): Promise<Opened> {
    const opened = await DRIZZLE.open(postgres.url);
    afterTest(() => opened.close());
    return opened;
  }

  describe('a savepoint of another branch, with nestjs-cls and an ORM that does not count its savepoints', () => {
    /** Sells in one branch while another is in a savepoint, which is rolled back. */
    const besideSavepoint = async (
      orm: Opened,
      sell: (tx: Runs, goOn: () => Promise<void>) => Promise<unknown>,
    ): Promise<void> => {
      const [opened, claimed] = [makeGate(), makeGate()];
      await orm.run(Propagation.Required, async () => {
        await orm.tx().query('SELECT 1', []);
        const undone = orm
          .run(Propagation.Nested, async () => {
            await orm.tx().query('SELECT 1', []);
            opened.open();
            await claimed.opened;
            throw new Error('back to the savepoint');
          })
          .catch(() => {});
        await opened.opened;
        const goOn = async (): Promise<void> => {
          claimed.open();
          await undone;
        };
        await sell(orm.tx(), goOn).finally(goOn);
      });
    };

    it('undoes a claim, which is repeated before COMMIT', async () => {
      const orm = await open();
      const { locks } = await startLocks(redis.url, { fence: true });
      const lock = await new AsyncResource('elsewhere').runInAsyncScope(() =>
        locks.acquire(stock.key),
      );
      await besideSavepoint(orm, (tx, goOn) =>
        lock.run(async () => {
          await goOn();
          await stock.takeOne(tx);
        }),
      );
      expect([await stock.quantity(), await stock.fence()]).toEqual([99, lock.fencingToken]);
      await lock.release();
    });

    it("allows no lock to join, because 'join' claims only outside of savepoints", async () => {
      const orm = await open();
      const { locks } = await startLocks(redis.url, { fence: true, insideTransaction: 'join' });
      const sale = besideSavepoint(orm, (tx) => locks.withLock(stock.key, () => stock.takeOne(tx)));
      await expect(sale).rejects.toThrow(/cannot be claimed inside a savepoint/);
      await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
      expect(await stock.quantity()).toBe(100);
    });
  });
});
