import type pg from 'pg';
import type { Setup } from '../work/messages.js';
import type { Purchase } from '../work/purchase.js';
import type { RecordedRedis, RedisRecord } from '../work/recorded-redis.js';
import { inTransaction, takePieces } from '../work/shop.js';

/** One way to build a lock, as an article has it. */
export interface Stage {
  readonly number: number;
  readonly name: string;
  /** What this step taught, in one sentence. */
  readonly lesson: string;
  /** Where it breaks, in one sentence; for the right ones, what they cost. */
  readonly breaks: string;
  /** What it has, which decides which accidents can happen to it. */
  readonly traits: readonly Trait[];
  /** Opens it in one process, for one trial. */
  open(tools: StageTools): Promise<OpenStage> | OpenStage;
}

export type Trait =
  /** Has something to hold and to wait for. */
  | 'lock'
  /** Keeps the lock in Redis. */
  | 'redis'
  /** The lock ends by itself. */
  | 'expiry'
  /** Judges by the clocks of its clients whether a lock has expired. */
  | 'client clock'
  /** Taken with more than one command. */
  | 'several commands'
  /** Renews by itself while the work runs. */
  | 'renewal'
  /** Passes the lock on inside a process without asking Redis. */
  | 'local hand-over';

export interface OpenStage {
  /** One purchase under the lock. */
  buy(purchase: Purchase): Promise<void>;
  /** The same, with the lock asked for inside of a transaction. */
  buyInsideTransaction?(purchase: Purchase): Promise<void>;
  close?(): Promise<void> | void;
}

export interface StageTools {
  readonly setup: Setup;
  readonly pool: pg.Pool;
  /** The connection that all callers of this process share. */
  readonly redis: RecordedRedis;
  readonly record: RedisRecord;
  /** Lends a connection to one caller alone, as WATCH and BLPOP need it. */
  withConnection<T>(use: (redis: RecordedRedis) => Promise<T>): Promise<T>;
}

/** The two functions that the articles write, and how the work is put between them. */
export interface Lock<Owner> {
  acquire(key: string): Promise<Owner>;
  release(key: string, owner: Owner): Promise<unknown>;
  close?(): void;
}

export function lockAround<Owner>(lock: Lock<Owner>, { pool }: StageTools): OpenStage {
  const locked = async (purchase: Purchase, work: () => Promise<void>): Promise<void> => {
    purchase.waits();
    const owner = await lock.acquire(purchase.key);
    purchase.holds();
    try {
      await work();
    } finally {
      purchase.releases();
      await lock.release(purchase.key, owner);
    }
  };
  return {
    buy: (purchase) =>
      locked(purchase, () => inTransaction(pool, (sql) => takePieces(sql, purchase))),
    buyInsideTransaction: (purchase) =>
      inTransaction(pool, (sql) => locked(purchase, () => takePieces(sql, purchase))),
    close: () => lock.close?.(),
  };
}
