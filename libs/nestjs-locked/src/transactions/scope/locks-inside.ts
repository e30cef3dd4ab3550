import { BranchMutex } from '../../core/calls/branch-mutex.js';
import type { AskedLocks, TransactionalLocks } from '../../core/calls/open-transaction.js';
import type { ReentryLevel } from '../../core/calls/reentry-level.js';
import { LockNotAcquiredError } from '../../core/lock.errors.js';
import type { Hold } from '../../core/queue/hold.js';
import type { ResolvedLockOptions } from '../../core/resolved.options.js';
import { systemClock } from '../../core/time/clock.js';
import { fenceOn, type GuardingHold } from './guarding-hold.js';
import type { TransactionDescription } from './transaction-description.js';
import type { Refusal } from './transaction-refusal.js';
import type { Asker, TransactionRun } from './transaction-run.js';

/** How long a single try waits for a branch that is about to be answered; it waits for no other. */
const SINGLE_TRY_BRANCH_MS = 500;

/** The request of a call, and until when it may wait, on the monotonic clock. */
interface Asked extends AskedLocks {
  readonly until: number;
}

/** An open transaction as seen by lock requests inside it. */
export interface TransactionLevel {
  readonly description: TransactionDescription;
  readonly connection: string;
  readonly tx: object;
  readonly isOpen: boolean;
  readonly run: TransactionRun;
  readonly startedAt: number;
  readonly ageMs: number;
  /** The outer transactions and this one, outermost first. */
  readonly levels: readonly TransactionLevel[];
  /** Whether the outermost transaction has ended in any way, so that it cannot be run again. */
  readonly hasOutlived: boolean;
  readonly inside: LocksInside;
  /** Whether each statement sees data committed before it; undefined if the isolation level is unknown. */
  seesFreshData(): Promise<boolean | undefined>;
  /** The levels that it keeps for this service until its end. */
  kept(locks: TransactionalLocks): readonly ReentryLevel[];
  /** @returns false if it takes no more levels, which then do not become its own */
  keep(locks: TransactionalLocks, taken: readonly ReentryLevel[]): boolean;
  guards(hold: Hold): boolean;
  /** Guards its COMMIT with these holds too. @throws if it is unsafe to continue under them */
  guardWith(holds: readonly GuardingHold[]): Promise<void>;
  /** @throws LockInTransactionError if it takes no more work · TransactionRestart if it is run again */
  assertTakesWork(asker: Asker): void;
  refusal(why: Refusal, asker: Asker): Error;
}

/**
 * Handles locks requested inside an open transaction. A key that the context already holds is joined. For any other
 * key, the call's option `insideTransaction` decides:
 *
 * - 'reject': the call is refused.
 * - 'restart': the transaction is rolled back, and run again from its beginning with the lock held.
 * - 'join': if that is safe, the lock is taken here, and kept until the outermost open transaction has ended.
 *
 * The work under a lock may be part of every enclosing transaction, so the hold guards the COMMIT of each.
 */
export class LocksInside {
  readonly #level: TransactionLevel;
  /** Makes parallel branches of the body take their locks one after the other. */
  readonly #mutex = new BranchMutex();
  /**
   * How long at least the keys of its calls stay taken. If the transaction is run again, their work is discarded, and
   * the next run must not find them taken.
   */
  readonly #keptUntil = new Map<Hold, number>();

  constructor(level: TransactionLevel) {
    this.#level = level;
  }

  /**
   * Takes the keys; all waits together last at most `waitMs`.
   * @returns one held re-entry level for each key @throws as `OpenTransaction.take`
   */
  async take(locks: TransactionalLocks, request: AskedLocks): Promise<readonly ReentryLevel[]> {
    const level = this.#level;
    const asked = { ...request, until: systemClock.now() + request.options.waitMs };
    await this.#decideOnMissing(locks, asked);
    const taken = await locks.take(asked.keys, withTheRest(asked)); // joins the present holds
    try {
      level.run.assertGoesOn();
      if (level.isOpen) {
        level.assertTakesWork(asked);
        await this.#guardAll(taken.map(({ hold }) => ({ locks, hold })));
      } // otherwise ordinary locks: the transaction has not waited for the requesting work
      this.#keepTaken(taken, request.options.holdAtLeastMs);
    } catch (error) {
      await closeAll(taken);
      throw error;
    }
    return taken;
  }

  /** Called when the work begins. */
  #keepTaken(taken: readonly ReentryLevel[], holdAtLeastMs: number): void {
    const { inside } = this.#outermost;
    const until = systemClock.now() + holdAtLeastMs;
    for (const { hold } of taken) {
      if (!this.#level.isOpen) keepUntil(hold, until);
      else inside.#keptUntil.set(hold, Math.max(until, inside.#keptUntil.get(hold) ?? until));
    }
  }

  /** Called when the transaction has ended and is not run again: the `holdAtLeastMs` of its calls takes effect. */
  workCounts(): void {
    for (const [hold, until] of this.#keptUntil) keepUntil(hold, until);
  }

  async #decideOnMissing(locks: TransactionalLocks, asked: Asked): Promise<void> {
    const { run } = this.#level;
    run.assertGoesOn();
    const missing = this.#missing(locks, asked);
    if (missing.keys.length === 0) return;
    const { insideTransaction, signal } = missing.options;
    if (insideTransaction === 'restart' && signal?.aborted === true) {
      return run.noteAborted(locks, missing); // `take` reports it
    }
    run.assertNotRefused(locks, missing);
    switch (insideTransaction) {
      case 'reject':
        this.#level.assertTakesWork(missing);
        throw this.#level.refusal('rejected', missing);
      case 'restart':
        return this.#beginAnew(missing, () => run.demand(locks, missing));
      case 'join':
        return this.#outermost.inside.#asOnlyBranch(asked, () => this.#takeHere(locks, asked));
    }
  }

  /** The keys that are neither held by the context nor kept by a transaction. */
  #missing(locks: TransactionalLocks, asked: Asked): Asked {
    const held = new Set(locks.heldHere().map(({ key }) => key));
    for (const level of this.#level.levels) {
      for (const { hold } of level.kept(locks)) if (!hold.isOver) held.add(hold.key);
    }
    return { ...asked, keys: asked.keys.filter((key) => !held.has(key)) };
  }

  /** Demands a fresh run: data read so far may be older than the lock, even if that is free now. */
  #beginAnew(asker: Asker, demand: () => never): never {
    this.#level.assertTakesWork(asker);
    if (this.#level.hasOutlived) throw this.#level.refusal('outlived', asker);
    for (const { description } of this.#level.levels) {
      const { notRestartable } = description;
      if (notRestartable !== undefined) throw this.#level.refusal(notRestartable, asker);
    }
    return demand();
  }

  async #asOnlyBranch({ keys, options, until }: Asked, take: () => Promise<void>): Promise<void> {
    const { waitMs, signal } = options;
    const branchMs = waitMs === 0 ? SINGLE_TRY_BRANCH_MS : Math.max(0, until - systemClock.now());
    const outcome = await this.#mutex.enter(systemClock, branchMs, signal);
    if (outcome === 'aborted') return; // `take` reports it
    if (outcome === 'busy') throw branchIsWaiting(keys[0] as string, waitMs);
    try {
      await take();
    } finally {
      this.#mutex.leave();
    }
  }

  /** Waits with the transaction open, for at most half of its remaining time. */
  async #takeHere(locks: TransactionalLocks, asked: Asked): Promise<void> {
    const level = this.#level;
    if (!level.isOpen) return; // now an ordinary lock
    const missing = this.#missing(locks, asked);
    if (missing.keys.length === 0) return;
    level.assertTakesWork(missing);
    await this.#assertMayJoin(locks, missing);
    const { timeoutMs = Infinity } = level.description;
    const leftMs = Math.max(0, timeoutMs - level.ageMs);
    const options = withTheRest(missing);
    const waitMs = Math.min(options.waitMs, Math.floor(leftMs / 2));
    const keeper = this.#outermost;
    const taken = await locks.take(missing.keys, { ...options, waitMs });
    if (!keeper.keep(locks, taken)) await closeAll(taken);
  }

  /** Makes holds acquired elsewhere the current ones of code inside the transaction. */
  async adopt(locks: TransactionalLocks, holds: readonly Hold[], callSite: string): Promise<void> {
    const level = this.#level;
    const asker = { callSite, keys: holds.map(({ key }) => key) };
    level.assertTakesWork(asker);
    // A hold younger than the outermost transaction is treated like a lock requested inside it.
    const { startedAt } = this.#outermost;
    const younger = holds.find((hold) => hold.since > startedAt && !level.guards(hold));
    switch (younger?.options.insideTransaction) {
      case undefined:
        break;
      case 'reject':
        throw level.refusal('rejected', asker);
      case 'restart':
        return this.#beginAnew(asker, () => level.run.beginAnew(asker));
      case 'join':
        await this.#assertMayJoin(locks, asker);
    }
    await this.#guardAll(holds.map((hold) => ({ locks, hold })));
  }

  async #guardAll(holds: readonly GuardingHold[]): Promise<void> {
    for (const level of this.#level.levels) await level.guardWith(holds);
  }

  /** @throws LockInTransactionError if the work would not see the last holder's writes, or could not be fenced */
  async #assertMayJoin(locks: TransactionalLocks, asker: Asker): Promise<void> {
    const fresh = await Promise.all(this.#level.levels.map((level) => level.seesFreshData()));
    if (fresh.includes(false)) throw this.#level.refusal('stale-snapshot', asker);
    if (fresh.includes(undefined)) throw this.#level.refusal('unknown-level', asker);
    const isInSavepoint = this.#level.levels.some(
      ({ connection, description, tx }) =>
        fenceOn(locks, connection) !== undefined && (description.depth?.(tx) ?? 0) > 0,
    );
    if (isInSavepoint) throw this.#level.refusal('savepoint', asker);
  }

  get #outermost(): TransactionLevel {
    return this.#level.levels[0] as TransactionLevel;
  }
}

/** The call's options with the rest of its wait. `holdAtLeastMs` is applied when its work begins. */
function withTheRest({ options, until }: Asked): ResolvedLockOptions {
  const leftMs = Math.max(0, Math.ceil(until - systemClock.now()));
  return { ...options, waitMs: Math.min(leftMs, options.waitMs), holdAtLeastMs: 0 };
}

function branchIsWaiting(key: string, waitMs: number): LockNotAcquiredError {
  return new LockNotAcquiredError(
    `Lock '${key}' was not acquired within ${waitMs} ms: other branches of the same transaction were waiting for their locks; ask for all of them in one call, or outside the transaction`,
    key,
    waitMs,
  );
}

function keepUntil(hold: Hold, until: number): void {
  hold.keptUntil = Math.max(hold.keptUntil, until);
}

async function closeAll(taken: readonly ReentryLevel[]): Promise<void> {
  await Promise.allSettled(taken.map((level) => level.close()));
}
