import type { TransactionalLocks } from '../../core/calls/open-transaction.js';
import { byBytes } from '../../core/keys/key-order.js';
import {
  type LockCommitUnknownError,
  LockConfigError,
  LockFencedError,
  LockLostError,
  LockStoreError,
} from '../../core/lock.errors.js';
import type { Hold } from '../../core/queue/hold.js';
import { systemClock } from '../../core/time/clock.js';
import { claimFence } from '../fence/fence.js';
import { isUnfenced } from '../fence/unfenced.js';
import { armable } from '../sql/armed-timeouts.js';
import type { DatabaseSession, TransactionBounds } from '../sql/database-session.js';
import { limitsAnything } from '../sql/postgres-statements.js';
import { fenceOn, type GuardingHold, holdsHere, isFenced } from './guarding-hold.js';
import { commitIdleMs, HEALTHY_SHARE, transactionBounds } from './transaction-bounds.js';

/** The share of its lease that a holder needs for a COMMIT; with less, the lease is renewed first. */
const COMMIT_SHARE = 0.1;

/**
 * The holds under which one transaction runs, whichever code acquired them. Claims them in the database, lets the
 * transaction commit only while they are held, and keeps them until it has ended.
 */
export class TransactionGuard {
  /** The number of transactions that keep a hold. */
  static readonly #keepers = new WeakMap<Hold, number>();
  readonly #connection: string;
  readonly #session: DatabaseSession | undefined;
  readonly #holds = new Map<Hold, TransactionalLocks>();
  /** Whether the claim of a key is permanent: a rollback to a savepoint undoes a claim made after it. */
  readonly #claimed = new Map<TransactionalLocks, Map<string, boolean>>();
  /** Decided when the transaction is opened; later contexts do not change it. */
  readonly #isFenced = !isUnfenced();
  #hasSpoken = false;
  /** The bounds armed outside savepoints, whose rollback would undo them. */
  #armed: { readonly idleMs: number; readonly at: number } | undefined;

  constructor(connection: string, session: DatabaseSession | undefined) {
    this.#connection = connection;
    this.#session = session;
  }

  /** Whether a transaction keeps the hold. */
  static isGuarded(hold: Hold): boolean {
    return (TransactionGuard.#keepers.get(hold) ?? 0) > 0;
  }

  static #count(hold: Hold, change: 1 | -1): void {
    TransactionGuard.#keepers.set(hold, (TransactionGuard.#keepers.get(hold) ?? 0) + change);
  }

  has(hold: Hold): boolean {
    return this.#holds.has(hold);
  }

  /** Whether it has sent a statement, because some statements must be the first of a transaction. */
  get hasSpoken(): boolean {
    return this.#hasSpoken;
  }

  hasClaimed(locks: TransactionalLocks, key: string): boolean {
    return this.#claimed.get(locks)?.has(key) === true;
  }

  /** Those of the holds that the transaction has claimed but whose claim may have been undone. */
  claimedInSavepoint(holds: readonly GuardingHold[]): readonly GuardingHold[] {
    return holds.filter(({ locks, hold }) => this.#claimed.get(locks)?.get(hold.key) === false);
  }

  /** Those of the holds that the transaction still has to claim. */
  unclaimed(holds: readonly GuardingHold[]): readonly GuardingHold[] {
    if (!this.#isFenced) return [];
    return holds.filter((one) => isFenced(one, this.#connection) && !this.#lasts(one));
  }

  /** Whether its claim cannot be undone before the end of the transaction. */
  #lasts({ locks, hold }: GuardingHold): boolean {
    return this.#claimed.get(locks)?.get(hold.key) === true;
  }

  /** Called before the first statement of the body. */
  async begin(holds: readonly GuardingHold[]): Promise<void> {
    await this.#session?.begin();
    const at = systemClock.now();
    const { idleMs = 0 } = (await this.add(holds)) ?? {};
    if (idleMs > 0) this.#armed = { idleMs, at };
    this.#session?.assertBegun?.();
  }

  /**
   * Keeps the holds until the transaction has ended, and claims them.
   *
   * @param isInSavepoint called where a claim is sent
   * @returns the armed time-outs @throws if it is unsafe to continue
   */
  async add(
    added: readonly GuardingHold[],
    isInSavepoint: () => boolean = () => false,
  ): Promise<TransactionBounds | undefined> {
    for (const { locks, hold } of added) {
      if (this.#holds.has(hold)) continue; // claimed again
      hold.join();
      TransactionGuard.#count(hold, 1);
      this.#holds.set(hold, locks);
    }
    // A grant may be much shorter than the lease from which the database's time-outs are derived.
    await Promise.all(
      added.map(({ hold }) => hold.refresh(hold.options.leaseMs * (HEALTHY_SHARE - COMMIT_SHARE))),
    );
    const bounds = boundsUnder([...this.#holds].map(([hold, locks]) => ({ locks, hold })));
    let isArmed = false;
    for (const locks of servicesOf(added)) {
      const fence = this.#fenceOf(locks);
      const unclaimed = this.unclaimed(added)
        .filter((one) => one.locks === locks)
        .map(({ hold }) => hold)
        .sort((a, b) => byBytes(a.key, b.key));
      if (fence === undefined || unclaimed.length === 0) continue;
      this.#hasSpoken = true;
      const toArm = isArmed ? undefined : bounds;
      const lasts = !isInSavepoint();
      await claimFence(
        this.#session ?? this.#noSession(),
        fence.table,
        locks,
        unclaimed,
        toArm,
      ).catch((error: unknown) => {
        if (error instanceof LockFencedError)
          tell(locks, unclaimed.find(({ key }) => key === error.key) as Hold, 'fenced');
        throw error;
      });
      this.#noteClaims(locks, unclaimed, lasts);
      isArmed = true;
    }
    if (bounds === undefined || this.#session === undefined) return undefined;
    if (!isArmed) {
      this.#hasSpoken = true;
      await this.#session.arm(bounds);
    }
    return bounds;
  }

  #noteClaims(locks: TransactionalLocks, holds: readonly Hold[], lasts: boolean): void {
    const claimed = this.#claimed.get(locks) ?? new Map<string, boolean>();
    for (const { key } of holds) claimed.set(key, lasts);
    this.#claimed.set(locks, claimed);
  }

  #fenceOf(locks: TransactionalLocks): { readonly table: string } | undefined {
    return this.#isFenced ? fenceOn(locks, this.#connection) : undefined;
  }

  #noSession(): never {
    throw new LockConfigError(
      `Cannot claim the fence on connection '${this.#connection}': how its transactions run statements is not known; pass { dialect, query } to lockAwareAdapter or lockAwareTransactions`,
    );
  }

  /** The gate before COMMIT. @throws if the COMMIT is forbidden */
  async assertCanCommit(): Promise<void> {
    if (this.#holds.size === 0) return;
    await this.#assertAllLast();
    await this.#session?.beforeCommit(this.#commitIdleMs());
    await this.#assertAllLast(); // the answer may have been late
  }

  async #assertAllLast(): Promise<void> {
    for (const [hold, locks] of this.#holds)
      await assertLasts(hold).catch((error: unknown) => vetoed(locks, hold, error));
  }

  /**
   * How long the database may wait for the COMMIT; undefined if the limit from the beginning is as strict. A
   * transaction old enough to have been ended by that limit is checked all the same, because before COMMIT there is no
   * doubt yet.
   */
  #commitIdleMs(): number | undefined {
    const idles = [...this.#holds].flatMap(([hold, { transactionOptions }]) => {
      const { timeouts } = transactionOptions;
      return timeouts === undefined ? [] : commitIdleMs(timeouts, hold.remainingMs());
    });
    const idleMs = Math.min(...idles.filter((ms) => ms > 0));
    if (idleMs === Infinity) return undefined;
    const { idleMs: armedMs = Infinity, at = 0 } = this.#armed ?? {};
    const isLimited = armedMs <= idleMs && systemClock.now() - at < armedMs;
    return isLimited ? undefined : idleMs;
  }

  /** The holds under which the transaction runs. */
  get holds(): ReadonlyMap<Hold, TransactionalLocks> {
    return this.#holds;
  }

  /** Reads only the clock when the COMMIT is sent. @throws LockLostError */
  assertHeld(): void {
    for (const [hold, locks] of this.#holds) {
      try {
        hold.assertHeld();
      } catch (error) {
        vetoed(locks, hold, error);
      }
    }
  }

  /** Called when the outcome is unknown: the keys stay taken until their leases expire. */
  commitUnknown(doubt: LockCommitUnknownError): void {
    for (const [hold, { report }] of this.#holds) {
      hold.commitUnknown(doubt);
      const { key, label, template } = hold;
      report({ type: 'commit-unknown', key, label, template, remainingMs: hold.leaseLeftMs() });
    }
  }

  /** Called when the work under the holds continues without the transaction. */
  loseHolds(): void {
    for (const hold of this.#holds.keys()) hold.lose('transaction-ended');
  }

  /** Called when the transaction no longer keeps the holds. */
  release(): void {
    for (const hold of this.#holds.keys()) {
      hold.leave();
      TransactionGuard.#count(hold, -1);
    }
  }
}

function tell(
  { report }: TransactionalLocks,
  { key, label, template }: Hold,
  outcome: 'fenced' | 'vetoed',
): void {
  report({ type: 'transaction', outcome, key, label, template });
}

/** @throws the error, which forbids the COMMIT */
function vetoed(locks: TransactionalLocks, hold: Hold, error: unknown): never {
  if (error instanceof LockLostError) tell(locks, hold, 'vetoed');
  throw error;
}

/** The time-outs, from the hold with the least time left; undefined if they are off. */
function boundsUnder(holds: readonly GuardingHold[]): TransactionBounds | undefined {
  const timed = holds.flatMap(({ hold, locks: { transactionOptions } }) =>
    transactionOptions.timeouts === undefined
      ? []
      : { hold, timeouts: transactionOptions.timeouts },
  );
  const tightest = timed.sort((a, b) => a.hold.remainingMs() - b.hold.remainingMs())[0];
  if (tightest === undefined) return undefined;
  const { hold, timeouts } = tightest;
  const { leaseMs } = hold.options;
  const [remainingMs, holdLeftMs] = [hold.remainingMs(), hold.holdLeftMs()];
  return transactionBounds(timeouts, { remainingMs, leaseMs, holdLeftMs });
}

/**
 * Whether a transaction opened here begins with our statement: a claim, or time-outs.
 *
 * @param survivesDisconnect whether its driver survives a connection closed by the database
 */
export function speaksFirst(connection: string, survivesDisconnect: boolean): boolean {
  const holds = holdsHere();
  if (!isUnfenced() && holds.some((one) => isFenced(one, connection))) return true;
  const bounds = boundsUnder(holds);
  return bounds !== undefined && limitsAnything(armable(bounds, survivesDisconnect));
}

/** The services without duplicates, in the order in which every transaction claims. */
function servicesOf(holds: readonly GuardingHold[]): TransactionalLocks[] {
  const services = new Set(holds.map(({ locks }) => locks));
  return [...services].sort((a, b) => byBytes(a.orderedBy, b.orderedBy));
}

async function assertLasts(hold: Hold): Promise<void> {
  try {
    await hold.ensureRemaining(Math.ceil(hold.options.leaseMs * COMMIT_SHARE));
  } catch (cause) {
    // For a suspect lease, the error already says that it is unknown whether it is held.
    if (!(cause instanceof LockStoreError) || !hold.isHeld) throw cause;
    throw new LockLostError(
      `The transaction is rolled back: lock '${hold.key}' is about to end and Redis does not confirm it`,
      hold.key,
      'expired',
      { cause },
    );
  }
}
