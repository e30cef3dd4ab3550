import type { RedisOptions } from 'ioredis';
import type pg from 'pg';
import type { Setup } from '../work/messages.js';
import type { Purchase } from '../work/purchase.js';
import type { RecordedRedis } from '../work/recorded-redis.js';
import { inTransaction, takePieces } from '../work/shop.js';

/** The id of nestjs-locked on one server. */
export const OURS = '17';

/** The id of nestjs-locked on several servers, the last row. */
export const OUR_QUORUM = '18b';

/** Whether it is nestjs-locked, on one server or on several. */
export function isOurs(stage: string): boolean {
  return stage === OURS || stage === OUR_QUORUM;
}

/** One way to build a lock, as an article has it, or a variant of one. */
export interface Stage {
  /** The number of the step in the articles; a letter follows if it is a variant of that step. */
  readonly id: string;
  readonly name: string;
  /** What this step taught, in one sentence. */
  readonly lesson: string;
  /** Where it breaks, in one sentence; for the stages that are right, what they cost. */
  readonly breaks: string;
  /** The properties that decide which accidents can happen to it. */
  readonly traits: readonly Trait[];
  /** Opens the stage in one process, for one trial. */
  open(tools: StageTools): Promise<OpenStage> | OpenStage;
}

export type Trait =
  /** There is something to hold and to wait for. */
  | 'lock'
  /** Keeps the lock in Redis. */
  | 'redis'
  /** The lock ends on its own. */
  | 'expiry'
  /** The clocks of the clients decide whether a lock has expired. */
  | 'client clock'
  /** The lock is taken with more than one command. */
  | 'several commands'
  /** The lock renews itself while the work runs. */
  | 'renewal'
  /** Inside a process, the lock is passed on without asking Redis. */
  | 'local hand-over'
  /** Who waits longer gets it first. */
  | 'in order'
  /** The lock is kept in several independent servers, of which more than half must agree. */
  | 'several servers';

export interface OpenStage {
  /** One purchase under the lock. */
  buy(purchase: Purchase): Promise<void>;
  /** One purchase for which the lock is asked for inside a transaction. */
  buyInsideTransaction?(purchase: Purchase): Promise<void>;
  close?(): Promise<void> | void;
}

export interface StageTools {
  readonly setup: Setup;
  readonly pool: pg.Pool;
  /** The connection that all callers of this process share. */
  readonly redis: RecordedRedis;
  /** Connects to each of the servers of a lock that is kept in several; all of them are there at the start. */
  readonly nodes: (options?: Partial<RedisOptions>) => Promise<readonly RecordedRedis[]>;
  /** Lends a connection to a single caller, as WATCH and BLPOP need it. */
  readonly withConnection: <T>(use: (redis: RecordedRedis) => Promise<T>) => Promise<T>;
}

/** The release found that the lock was no longer its caller's: told, but after the work is done. */
export class NotHeld extends Error {
  override readonly name = 'NotHeld';
}

/** The waiter has waited for as long as it wanted to. */
export class GaveUp extends Error {
  override readonly name = 'GaveUp';
  readonly code = 'LOCK_NOT_ACQUIRED';
}

/** The two functions that the articles write. */
export interface Lock<Owner> {
  acquire(key: string): Promise<Owner>;
  release(key: string, owner: Owner): Promise<unknown>;
  close?(): void;
}

/** A stage of such a lock, with the work put between its two functions. */
export function lockStage<Owner>({
  lock: open,
  releasedBeforeCommit = false,
  ...stage
}: Omit<Stage, 'open'> & {
  readonly lock: (tools: StageTools) => Lock<Owner> | Promise<Lock<Owner>>;
  /** Takes and releases the lock inside the transaction, so the release comes before the COMMIT. */
  readonly releasedBeforeCommit?: boolean;
}): Stage {
  return {
    ...stage,
    async open(tools) {
      const lock = await open(tools);
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
      const buyInsideTransaction = (purchase: Purchase): Promise<void> =>
        inTransaction(tools.pool, (sql) => locked(purchase, () => takePieces(sql, purchase)));
      return {
        buy: releasedBeforeCommit
          ? buyInsideTransaction
          : (purchase) =>
              locked(purchase, () => inTransaction(tools.pool, (sql) => takePieces(sql, purchase))),
        buyInsideTransaction,
        close: () => lock.close?.(),
      };
    },
  };
}
