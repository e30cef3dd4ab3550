import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Propagation } from '@nestjs-cls/transactional';
import { Redis } from 'ioredis';
import type { LockService } from 'nestjs-locked';
import pg from 'pg';
import { usePostgres } from '../support/databases.js';
import { useRedis } from '../support/shared-redis.js';
import { openLockApp } from '../transactions/locks.js';
import { type Runs, useStock } from '../transactions/stock.js';
import type { OrmUnderTest } from './orm-under-test.js';

/** Runs work with a propagation, and keeps its transaction in the context. */
export interface Propagating {
  run<R>(propagation: Propagation, work: () => Promise<R>): Promise<R>;
  /** Runs statements in the transaction of the context, or outside of any. */
  tx(): Runs;
  close(): Promise<unknown>;
}

export interface PropagationOptions {
  /** What NESTED opens; with typeorm-transactional, it is a separate transaction. @default 'savepoint' */
  readonly nested?: 'savepoint' | 'transaction';
}

const PROPAGATIONS = Object.values(Propagation);
const { Required, RequiresNew, Nested, Never, Mandatory, Supports } = Propagation;

/** How the work ends after it has taken one piece. */
type Ending = 'commits' | 'throws' | 'throws inside, and that is caught' | 'throws outside';

/** Where the lock is acquired: nowhere, around everything, or directly around the work. */
const LOCKS = ['with no lock', 'under a lock', 'asking for a lock'] as const;

class Thrown extends Error {}

/**
 * Tests that transactions propagate under locks as they do without. The cases are those of the test suites of
 * nestjs-cls and typeorm-transactional, each without a lock, with one around it, and with one requested inside.
 */
export function describePropagation(
  { name, open }: OrmUnderTest<Propagating>,
  { nested = 'savepoint' }: PropagationOptions = {},
): void {
  const opensAlone = [Required, RequiresNew, Nested];
  const joins = [Required, Mandatory, Supports, ...(nested === 'savepoint' ? [Nested] : [])];
  const opensInside = [RequiresNew, ...(nested === 'savepoint' ? [] : [Nested])];

  describe(`propagation with ${name}`, () => {
    let orm: Propagating;
    /** Outside every transaction. Kept open, because each case checks and refills the stock many times. */
    let aside: pg.Client;
    let admin: Redis;
    /** One with a fence, and one without for transactions inside others. */
    const services: { locks: LockService; close: () => Promise<void> }[] = [];
    // Declared before the hook that drops the database.
    afterAll(async () => {
      for (const { close } of services) await close();
      await orm.close();
      await aside.end();
      admin.disconnect();
    });
    const redis = useRedis();
    const postgres = usePostgres();
    const stock = useStock(postgres);

    beforeAll(async () => {
      orm = await open(postgres.url);
      aside = new pg.Client({ connectionString: postgres.url });
      await aside.connect();
      admin = new Redis(redis.url);
      for (const options of [{ fence: {} }, {}]) {
        services.push(await openLockApp(redis.url, { ...options, insideTransaction: 'restart' }));
      }
    });

    /** The service without a fence for a transaction inside another, because two of them cannot claim the same key. */
    const locksFor = (propagation: Propagation, isInside: boolean): LockService => {
      const unfenced = isInside && opensInside.includes(propagation);
      return (services[unfenced ? 1 : 0] as { locks: LockService }).locks;
    };
    const takeOne = async (): Promise<void> => {
      await orm
        .tx()
        .query('UPDATE stock SET quantity = quantity - 1 WHERE id = $1', [stock.product]);
    };
    const fail = (): Promise<never> => Promise.reject(new Thrown());
    const refill = (): Promise<unknown> => aside.query('UPDATE stock SET quantity = 100');
    const outcomeOf = async (work: Promise<unknown>): Promise<string> => {
      const failure = await work.then(
        () => undefined,
        (error: unknown) => error as Error,
      );
      const how =
        failure === undefined ? 'returns' : failure instanceof Thrown ? 'throws' : 'refuses';
      const {
        rows: [row],
      } = await aside.query<{ taken: number }>(
        'SELECT 100 - quantity AS taken FROM stock WHERE id = $1',
        [stock.product],
      );
      const isHeld = (await admin.exists(`lock:{${stock.key}}`)) === 1;
      return `${how}, ${row?.taken} taken${isHeld ? ', and the lock is held' : ''}`;
    };
    /** The work, with its lock, in a transaction with this propagation. */
    const sell = (
      propagation: Propagation,
      lock: (typeof LOCKS)[number],
      ending: Ending,
      isInside: boolean,
    ): (() => Promise<void>) => {
      const locks = locksFor(propagation, isInside);
      const throwsInside = ending === 'throws' || ending.startsWith('throws inside');
      return () =>
        orm.run(propagation, async () => {
          if (lock === 'asking for a lock') await locks.withLock(stock.key, takeOne);
          else await takeOne();
          if (throwsInside) await fail();
        });
    };
    const underLock = (
      propagation: Propagation,
      lock: (typeof LOCKS)[number],
      isInside: boolean,
      work: () => Promise<void>,
    ): Promise<void> =>
      lock === 'under a lock' ? locksFor(propagation, isInside).withLock(stock.key, work) : work();

    describe.each(LOCKS)('%s', (lock) => {
      describe('without a transaction around', () => {
        const expected = (propagation: Propagation, ending: Ending): string => {
          if (propagation === Mandatory) return 'refuses, 0 taken';
          if (ending === 'commits') return 'returns, 1 taken';
          return opensAlone.includes(propagation) ? 'throws, 0 taken' : 'throws, 1 taken';
        };

        it.each(PROPAGATIONS)('%s', async (propagation) => {
          for (const ending of ['commits', 'throws'] as const) {
            await refill();
            const work = sell(propagation, lock, ending, false);
            // MANDATORY throws instead of rejecting.
            const sale = underLock(propagation, lock, false, async () => work());
            expect([ending, await outcomeOf(sale)]).toEqual([
              ending,
              expected(propagation, ending),
            ]);
          }
        });
      });

      describe('inside a transaction', () => {
        const expected = (propagation: Propagation, ending: Ending): string => {
          if (propagation === Never) return 'refuses, 0 taken';
          if (ending === 'commits') return 'returns, 1 taken';
          if (ending === 'throws outside') {
            return joins.includes(propagation) ? 'throws, 0 taken' : 'throws, 1 taken';
          }
          const isUndone = [RequiresNew, Nested].includes(propagation);
          return isUndone ? 'returns, 0 taken' : 'returns, 1 taken';
        };
        const endings = ['commits', 'throws inside, and that is caught', 'throws outside'] as const;

        it.each(PROPAGATIONS)('%s', async (propagation) => {
          for (const ending of endings) {
            const inner = sell(propagation, lock, ending, true);
            const outer = (): Promise<void> =>
              orm.run(Required, async () => {
                await orm.tx().query('SELECT count(*) FROM stock', []);
                const work = inner();
                await (ending.startsWith('throws inside') && propagation !== Never
                  ? work.catch(() => {})
                  : work);
                if (ending === 'throws outside') await fail();
              });
            await refill();
            const sale = underLock(propagation, lock, true, outer);
            expect([ending, await outcomeOf(sale)]).toEqual([
              ending,
              expected(propagation, ending),
            ]);
          }
        });
      });
    });
  });
}
