import pg from 'pg';
import { currentPurchase } from './purchase.js';

type Query = (this: pg.Client, ...args: unknown[]) => unknown;

/**
 * Makes every PostgreSQL client of this process write down the begin and end of transactions, and stop before COMMIT.
 * This covers both TypeORM and the stages that use `pg` directly.
 */
export function recordTransactions(): void {
  const prototype = pg.Client.prototype as unknown as { query: Query };
  const query = prototype.query;
  const inTransaction = new WeakSet<pg.Client>();
  prototype.query = function (...args) {
    const purchase = currentPurchase.getStore();
    const text = textOf(args[0]);
    const verb: string = /^\w*/.exec(text)?.[0].toUpperCase() ?? '';
    if (purchase === undefined) return query.apply(this, args);
    const begins = (): void => {
      if (!inTransaction.has(this)) purchase.note('begin');
      inTransaction.add(this);
    };
    switch (verb) {
      case 'BEGIN':
      case 'START':
        begins();
        return query.apply(this, args);
      case 'ROLLBACK':
        inTransaction.delete(this);
        purchase.note('rolled back');
        return query.apply(this, args);
      case 'COMMIT': {
        inTransaction.delete(this);
        const commit = async (): Promise<unknown> => {
          await purchase.reach('commit');
          purchase.note('commit');
          const answer = (await query.apply(this, args)) as { command?: string };
          // PostgreSQL answers COMMIT with ROLLBACK if a statement before it had failed.
          purchase.note(answer.command === 'ROLLBACK' ? 'rolled back' : 'committed');
          return answer;
        };
        return commit();
      }
      default:
        // The BEGIN of nestjs-locked travels with its claim, in one message.
        if (text.includes('lock_fence')) begins();
        return query.apply(this, args);
    }
  };
}

/** The text of what `query` is given: a text, or an object that has it. */
function textOf(statement: unknown): string {
  if (typeof statement === 'string') return statement;
  const { text } = (statement ?? {}) as { text?: unknown };
  return typeof text === 'string' ? text : '';
}
