import { beforeEach, describe, expect, it } from '@jest/globals';
import { LockAbortedError, LockLostError, LockNotAcquiredError } from 'nestjs-locked';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import { setTimeout as sleep } from 'node:timers/promises';
import { usePostgres } from '../support/databases.js';
import { makeGate } from '../support/gate.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { type LockModuleOptions, RESTARTING_ORMS, type StartedOrm } from './restarting-orms.js';
import { useSales } from './sales.js';
import { createSlowCommitTable } from './slow-commit.js';
import { useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);

const { note, count: sales } = useSales(postgres, stock);

let other: string;
beforeEach(() => void (other = uniqueKey('other')));

const held = (key: string): Promise<boolean> => isHeld(redis.url, key);

/** Aborted when the call surely waits, on a busy machine too. */
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

    it('one branch that waits under join is aborted, the other one continues', async () => {
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

describe('what nobody has written down', () => {
  it('the application closes while a restart waits [D83]', async () => {
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

  it('forceRelease during the COMMIT: with the fence the next holder waits for it [D83]', async () => {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings));
    const { locks } = await startLocks(redis.url, { insideTransaction: 'restart', fence: {} });
    const next = (await startLocks(redis.url, { fence: {} })).locks;
    await createSlowCommitTable(postgres);
    const events: string[] = [];
    const committing = makeGate();
    const first = locks.withLock(stock.key, () =>
      dataSource
        .transaction(async (manager) => {
          await stock.takeOne(manager);
          await manager.query('INSERT INTO slow VALUES (1)');
          committing.open();
        })
        .then(() => events.push('first committed')),
    );
    await committing.opened;
    await sleep(300);
    await next.forceRelease(stock.key);
    const second = next.withLock(stock.key, () => {
      events.push('second has the lock');
      return dataSource.transaction((manager) => stock.takeOne(manager));
    });
    await Promise.all([first, second]);
    expect(events).toEqual(['second has the lock', 'first committed']);
    expect(await stock.quantity()).toBe(98);
  });
});
