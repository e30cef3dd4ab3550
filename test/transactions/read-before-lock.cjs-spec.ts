import { describe, expect, it } from '@jest/globals';
import { usePostgres } from '../support/databases.js';
import { useRedis } from '../support/shared-redis.js';
import { RESTARTING_ORMS } from './restarting-orms.js';
import { type Runs, useStock } from './stock.js';

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
  'what was read at READ COMMITTED before a lock was requested, with %s',
  (_, orm) => {
    it.each([{}, { fence: {} }])(
      'is read again under it, even if it is free: %j [R57, D66]',
      async (fenced) => {
        const { locks, transaction } = await orm.start(redis.url, postgres, {
          insideTransaction: 'restart',
          ...fenced,
        });
        let runs = 0;
        await transaction(async (tx) => {
          const before = await read(tx());
          if (runs++ === 0) {
            // Somebody sells one, and has given the lock back when it is requested.
            await postgres.query('UPDATE stock SET quantity = 99 WHERE id = $1', [stock.product]);
          }
          await locks.withLock(stock.key, () => write(tx(), before - 1));
        });
        expect([runs, await stock.quantity()]).toEqual([2, 98]);
      },
    );

    it('is not if the lock is taken inside, where a sale is lost: the control [D66]', async () => {
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

    it('may be old under join, which protects what is read under the lock [D66]', async () => {
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
