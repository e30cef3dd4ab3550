import type { LabEvent } from './events.js';

/** Where a caller can be stopped: the exact point of an accident. */
export type Point =
  /** After the reply to the first command that asks for the lock. */
  | 'first reply'
  /** After a reply that showed the lock as expired. */
  | 'saw expired'
  /** Inside the lock, between reading the stock and writing it. */
  | 'inside'
  /** Before COMMIT is sent. */
  | 'commit'
  /** Before the command that removes the lock. */
  | 'removal'
  /** Before every command that makes the lock last longer. A command that only looks before it is let through. */
  | 'renewal';

/** What a process is told before a trial. */
export interface Setup {
  readonly stage: string;
  readonly redisUrl: string;
  /** Of the servers of a lock that is kept in several. */
  readonly nodeUrls: readonly string[];
  readonly databaseUrl: string;
  readonly product: string;
  /** Added to the result of `Date.now()` in this process. */
  readonly clockOffsetMs: number;
  /** How long the database lets one transaction last. 0 means for ever. */
  readonly transactionLimitMs: number;
  /** Whether Redis commands are written down one by one. */
  readonly recordCommands: boolean;
  readonly seed: number;
}

export interface Order {
  readonly lane: string;
  readonly quantity: number;
  /** How many purchases, one after the other; 0 means until told to go on. */
  readonly times: number;
  readonly stopAt: readonly Point[];
  /** The lock is asked for inside a transaction that is open already. */
  readonly insideTransaction: boolean;
  readonly workMs: readonly [from: number, to: number];
}

export type ToWorker =
  | { readonly do: 'set up'; readonly setup: Setup }
  | { readonly do: 'buy'; readonly order: Order }
  | { readonly do: 'go'; readonly lane: string; readonly point: Point }
  /** From now on, stops at no point, and ends an endless order. */
  | { readonly do: 'go on'; readonly lane: string }
  /** Sends the database a query that has nothing to do with the lock. */
  | { readonly do: 'ask database' }
  | { readonly do: 'tear down' };

/** What a process sent to Redis during a trial. */
export interface Traffic {
  readonly commands: number;
  readonly bytes: number;
}

export type FromWorker =
  | { readonly say: 'ready' }
  | { readonly say: 'event'; readonly event: LabEvent }
  | { readonly say: 'at'; readonly lane: string; readonly point: Point }
  | { readonly say: 'ended'; readonly lane: string }
  | { readonly say: 'answered'; readonly ms: number }
  | { readonly say: 'torn down'; readonly traffic: Traffic }
  | { readonly say: 'broken'; readonly message: string };
