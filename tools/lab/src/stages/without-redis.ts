import type { Purchase } from '../work/purchase.js';
import {
  addPurchase,
  inTransaction,
  readStock,
  type Sql,
  takePieces,
  think,
} from '../work/shop.js';
import { type Lock, lockStage, type Stage } from './stage.js';

/** Stages 1 to 4: one process, or one database. */
export const WITHOUT_REDIS: readonly Stage[] = [
  {
    id: '1',
    name: 'no lock',
    lesson: 'A transaction alone does not keep others from reading the same value.',
    breaks: 'Several workers read the same stock, and the last one to save wins.',
    traits: [],
    open: ({ pool }) => ({
      async buy(purchase) {
        purchase.holds(); // nobody was asked, so nobody said no
        // Breaks here: everybody reads 100, and everybody saves 90.
        await inTransaction(pool, (sql) => takePieces(sql, purchase));
        purchase.releases();
      },
    }),
  },
  lockStage({
    id: '2',
    name: 'mutex released before COMMIT',
    lesson: 'A lock object in memory lets one in at a time.',
    breaks: 'Released inside the transaction: the next one reads the old stock before the COMMIT.',
    traits: ['lock'],
    releasedBeforeCommit: true, // Breaks here, even in one process.
    lock: mutex,
  }),
  lockStage({
    id: '2b',
    name: 'mutex around the transaction',
    lesson:
      'Kept until COMMIT was answered, the lock object is right as long as there is one process.',
    breaks: 'A second process has a lock object of its own.',
    traits: ['lock'],
    lock: mutex,
  }),
  {
    id: '3',
    name: 'row lock (pessimistic)',
    lesson: 'SELECT ... FOR UPDATE is right: the database itself lets one in at a time.',
    breaks:
      'Every caller holds a connection while it waits, and a paused holder blocks the others.',
    traits: ['lock'],
    open({ pool }) {
      const buy = (purchase: Purchase): Promise<void> =>
        inTransaction(pool, async (sql) => {
          purchase.waits();
          try {
            // Breaks here: a waiter has begun a transaction, and keeps its connection.
            await takePieces(sql, purchase, 'FOR UPDATE');
          } finally {
            purchase.releases(); // COMMIT and ROLLBACK release it
          }
        });
      return { buy, buyInsideTransaction: buy };
    },
  },
  {
    id: '4',
    name: 'version column (optimistic)',
    lesson: 'UPDATE ... WHERE version = what I read is right: the rows affected decide.',
    breaks: 'Under contention most attempts fail, and every caller has to try again.',
    traits: ['lock'],
    open: ({ pool }) => ({
      async buy(purchase) {
        for (;;) {
          try {
            return await inTransaction(pool, (sql) => tryOnce(sql, purchase));
          } catch (error) {
            if (!(error instanceof VersionChanged)) throw error;
            purchase.note('retry'); // Breaks here: the work done so far is lost.
          }
        }
      },
    }),
  },
];

/** A queue in memory. */
function mutex(): Lock<() => void> {
  // Breaks here: every process has a queue of its own.
  let tail = Promise.resolve();
  return {
    async acquire() {
      const before = tail;
      let release = (): void => {};
      tail = new Promise((resolve) => (release = resolve));
      await before;
      return release;
    },
    release: async (_key, release) => release(),
  };
}

class VersionChanged extends Error {}

async function tryOnce(sql: Sql, purchase: Purchase): Promise<void> {
  const { stokenum, version } = await readStock(sql, purchase);
  await think(sql, purchase);
  purchase.note('write');
  const updated = await sql(
    `UPDATE stocks SET stokenum = $2, version = version + 1
      WHERE id = $1 AND version = $3 RETURNING id`,
    [purchase.product, stokenum - purchase.quantity, version],
  );
  if (updated.length === 0) throw new VersionChanged();
  purchase.holds(); // it has the row from its UPDATE to its COMMIT
  await addPurchase(sql, purchase);
  purchase.releases();
}
