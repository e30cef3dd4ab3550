import { systemClock } from '../clock.js';
import type { Hold } from '../hold.js';
import { byBytes } from '../key-order.js';
import type { Section } from '../lock-scope.js';
import {
  LockConfigError,
  LockLostError,
  LockNotAcquiredError,
  LockStoreError,
} from '../lock.errors.js';
import { locksInUse, type LockRequest, type TransactionalLocks } from '../open-transaction.js';
import { seesFreshData, type DatabaseSession, type TransactionBounds } from './database-session.js';
import { claimFence } from './fence.js';
import type { Restart } from './restart.js';
import { commitIdleMs, HEALTHY_SHARE, transactionBounds } from './transaction-bounds.js';
import type { TransactionDescription } from './transaction-description.js';
import { refusal, type Refusal } from './transaction-refusal.js';

/** How a transaction ended; unknown = it failed after COMMIT was sent, without an answer from the database. */
export type TransactionOutcome = 'committed' | 'rolled-back' | 'unknown';

/** What of its lease a holder must have left when it commits; less is topped up first. */
const COMMIT_SHARE = 0.1;

interface GuardingHold {
  readonly locks: TransactionalLocks;
  readonly hold: Hold;
}

async function closeAll(sections: readonly Section[]): Promise<void> {
  await Promise.allSettled(sections.map((section) => section.close()));
}

/**
 * One transaction, from its first statement to the database's answer to COMMIT or ROLLBACK; savepoints are part of
 * it. Keeps the holds under which it runs until it has ended, whoever acquired them; claims them in the database at
 * its beginning; lets it commit only while they are held.
 */
export class TransactionScope {
  readonly description: TransactionDescription;
  readonly tx: object;
  /** The transaction around it, in the same async context. */
  readonly outer: TransactionScope | undefined;
  /** Shared with the transactions around it: the outermost one is run again. */
  readonly restart: Restart;
  readonly #startedAt = systemClock.now();
  readonly #session: DatabaseSession | undefined;
  #state: 'open' | 'committing' | 'ended' = 'open';
  #bodyRuns = false;
  readonly #guarding = new Map<Hold, TransactionalLocks>();
  readonly #claimed = new Map<TransactionalLocks, Set<string>>();
  /** Locks that were taken inside of it: it is the one to release them. */
  readonly #kept: { readonly locks: TransactionalLocks; readonly section: Section }[] = [];
  /** Parallel branches of the body take their locks one after the other. */
  #lastTake: Promise<unknown> = Promise.resolve();
  #isFresh: Promise<boolean> | undefined;
  /** Why it must not commit, also if somebody swallows it: a hold under which it runs could not be claimed. */
  #failure: Error | undefined;

  constructor(
    description: TransactionDescription,
    tx: object,
    restart: Restart,
    outer: TransactionScope | undefined,
  ) {
    this.description = description;
    this.tx = tx;
    this.restart = restart;
    this.outer = outer;
    this.#session = description.session(tx);
  }

  get connection(): string {
    return this.description.connection ?? 'default';
  }

  get isOpen(): boolean {
    return this.#state !== 'ended';
  }

  /** Whether code that runs here and now runs inside of it. */
  get isAmbient(): boolean {
    return this.isOpen && this.description.isAmbient(this.tx);
  }

  /** The body, between the claim and the gate. */
  async run<R>(body: () => Promise<R>): Promise<R> {
    await this.begin();
    this.#bodyRuns = true;
    let result: R;
    try {
      result = await body();
    } finally {
      this.#bodyRuns = false;
    }
    await this.beforeCommit();
    return result;
  }

  // ---- beginning --------------------------------------------------------------------------------------------

  /** Before the first statement of the body: claims every hold of the context. */
  async begin(): Promise<void> {
    const here = [...locksInUse()].flatMap((locks) =>
      locks.heldHere().map((hold) => ({ locks, hold })),
    );
    if (here.length > 0) await this.#guard(here);
  }

  async #guard(holds: readonly GuardingHold[]): Promise<void> {
    const added = holds.filter(({ hold }) => !this.#guarding.has(hold));
    if (added.length === 0) return;
    for (const { locks, hold } of added) {
      hold.join();
      this.#guarding.set(hold, locks);
    }
    try {
      await this.#claim(added);
    } catch (error) {
      this.#failure ??= error as Error;
      throw error;
    }
  }

  async #claim(added: readonly GuardingHold[]): Promise<void> {
    // A grant may be much shorter than the lease for which the database's time-outs are made.
    await Promise.all(
      added.map(({ hold }) => hold.refresh(hold.options.leaseMs * (HEALTHY_SHARE - COMMIT_SHARE))),
    );
    let bounds = this.#bounds();
    for (const locks of new Set(added.map((one) => one.locks))) {
      const fence = this.#fenceOf(locks);
      if (fence === undefined) continue;
      const unclaimed = this.#unclaimed(locks, added);
      if (unclaimed.length === 0) continue;
      await claimFence(this.#session ?? this.#noSession(), fence.table, unclaimed, bounds);
      for (const { key } of unclaimed) this.#claimsOf(locks).add(key);
      bounds = undefined; // armed with the claim
    }
    if (bounds !== undefined) await this.#session?.arm(bounds);
  }

  #unclaimed(locks: TransactionalLocks, holds: readonly GuardingHold[]): Hold[] {
    const own = holds.filter((one) => one.locks === locks).map(({ hold }) => hold);
    const unclaimed = own.filter(({ key }) => !this.#claimsOf(locks).has(key));
    for (const { key } of unclaimed) this.#assertNotClaimedAround(locks, key);
    return unclaimed.sort((a, b) => byBytes(a.key, b.key));
  }

  /** The row would be locked by a transaction that waits for this one to end. @throws LockInTransactionError */
  #assertNotClaimedAround(locks: TransactionalLocks, key: string): void {
    for (let { outer } = this; outer !== undefined; outer = outer.outer) {
      if (!outer.isOpen || outer.connection !== this.connection) continue;
      if (outer.#claimsOf(locks).has(key)) throw this.#refusal('own-claim', 'A transaction', key);
    }
  }

  #claimsOf(locks: TransactionalLocks): Set<string> {
    let claims = this.#claimed.get(locks);
    if (claims === undefined) this.#claimed.set(locks, (claims = new Set()));
    return claims;
  }

  #fenceOf({ transactionRules }: TransactionalLocks): { readonly table: string } | undefined {
    const { fence } = transactionRules;
    return (fence?.connections?.includes(this.connection) ?? true) ? fence : undefined;
  }

  #noSession(): never {
    throw new LockConfigError(
      `Cannot claim the fence on connection '${this.connection}': how its transactions run statements is not known; pass { dialect, query } to lockAware`,
    );
  }

  /** Time-outs from the hold that has least left; undefined if they are off. */
  #bounds(): TransactionBounds | undefined {
    const holds = [...this.#guarding].flatMap(([hold, { transactionRules }]) =>
      transactionRules.timeouts === undefined ? [] : { hold, timeouts: transactionRules.timeouts },
    );
    const tightest = holds.sort((a, b) => a.hold.remainingMs() - b.hold.remainingMs())[0];
    if (tightest === undefined) return undefined;
    const { hold, timeouts } = tightest;
    const { leaseMs } = hold.options;
    const [remainingMs, holdLeftMs] = [hold.remainingMs(), hold.holdLeftMs()];
    return transactionBounds(timeouts, { remainingMs, leaseMs, holdLeftMs });
  }

  // ---- committing -------------------------------------------------------------------------------------------

  /** The gate before COMMIT. @throws whatever forbids it; the transaction is rolled back then */
  async beforeCommit(): Promise<void> {
    if (this.restart.signal !== undefined) throw this.restart.signal; // somebody swallowed it
    this.#state = 'committing';
    if (this.#failure !== undefined) throw this.#failure;
    if (this.#guarding.size === 0) return;
    for (const hold of this.#guarding.keys()) await this.#assertCanCommit(hold);
    await this.#session?.beforeCommit(this.#commitIdleMs());
    for (const hold of this.#guarding.keys()) hold.assertHeld();
  }

  async #assertCanCommit(hold: Hold): Promise<void> {
    try {
      await hold.ensure(Math.ceil(hold.options.leaseMs * COMMIT_SHARE));
    } catch (cause) {
      if (!(cause instanceof LockStoreError)) throw cause;
      throw new LockLostError(
        `The transaction is rolled back: lock '${hold.key}' is about to end and Redis does not confirm it`,
        hold.key,
        'expired',
        { cause },
      );
    }
  }

  #commitIdleMs(): number | undefined {
    const idles = [...this.#guarding].flatMap(([hold, { transactionRules }]) => {
      const { timeouts } = transactionRules;
      return timeouts === undefined ? [] : commitIdleMs(timeouts, hold.remainingMs());
    });
    return idles.length === 0 ? undefined : Math.min(...idles);
  }

  // ---- ending -----------------------------------------------------------------------------------------------

  /** Never throws: what becomes of a release must not look like what became of the transaction. */
  async end(outcome: TransactionOutcome): Promise<void> {
    if (!this.isOpen) return;
    this.#state = 'ended';
    for (const [hold, { report }] of this.#guarding) {
      if (outcome === 'unknown') {
        hold.commitUnknown();
        report({ type: 'commit-unknown', key: hold.key, remainingMs: hold.remainingMs() });
      }
      if (this.#bodyRuns) hold.lose('transaction-ended');
    }
    for (const hold of this.#guarding.keys()) void hold.drop().catch(() => {}); // reported
    const ended = this.#kept.filter(({ section }) => section.hold.users === 1);
    const closing = this.#kept.map(({ section }) => section.close());
    for (const closed of closing) closed.catch(() => {}); // reported
    // Work that was not awaited may use some of them still; nobody waits for that here.
    await closeAll(ended.map(({ section }) => section));
  }

  // ---- locks asked for inside -------------------------------------------------------------------------------

  keptSections(locks: TransactionalLocks): readonly Section[] {
    const own = this.#kept.filter((kept) => kept.locks === locks).map(({ section }) => section);
    const around = this.outer?.isOpen === true ? this.outer.keptSections(locks) : [];
    return [...own, ...around];
  }

  /** The work under a lock may be part of each transaction that is open here: each is guarded by it. */
  async take(locks: TransactionalLocks, request: LockRequest): Promise<readonly Section[]> {
    await this.#outermost.#inTurn(() => this.#takeMissing(locks, request));
    const sections = await locks.take(request.keys, request.options); // joins what is there now
    if (!this.isOpen) return sections; // ordinary ones: nobody has waited for the work that asks
    try {
      await this.#guardAll(sections.map(({ hold }) => ({ locks, hold })));
    } catch (error) {
      await closeAll(sections);
      throw error;
    }
    return sections;
  }

  async #inTurn(take: () => Promise<void>): Promise<void> {
    const turn = this.#lastTake.then(take);
    this.#lastTake = turn.catch(() => {});
    return turn;
  }

  async #guardAll(holds: readonly GuardingHold[]): Promise<void> {
    for (const scope of this.#openHere) await scope.#guard(holds);
  }

  #missing(locks: TransactionalLocks, keys: readonly string[]): string[] {
    const held = new Set(locks.heldHere().map(({ key }) => key));
    for (const { hold } of this.keptSections(locks)) if (hold.isHeld) held.add(hold.key);
    return keys.filter((key) => !held.has(key));
  }

  async #takeMissing(locks: TransactionalLocks, asked: LockRequest): Promise<void> {
    const request = { ...asked, keys: this.#missing(locks, asked.keys) };
    if (request.keys.length === 0) return;
    this.restart.assertNotRefused(request.keys);
    const { insideTransaction } = request.options;
    if (this.#openHere.some((scope) => scope.#state !== 'open')) {
      throw this.#refuse('committing', request);
    }
    switch (insideTransaction) {
      case 'reject':
        throw this.#refuse('rejected', request);
      case 'restart':
        return this.#takeOrRestart(locks, request);
      case 'join':
        return this.#takeInside(locks, request);
    }
  }

  async #takeOrRestart(locks: TransactionalLocks, request: LockRequest): Promise<void> {
    if (!this.#isRestartable) throw this.#refuse('not-restartable', request);
    if (this.restart.signal !== undefined) this.restart.demand(locks, request);
    // A lock that is free now may have been held when our snapshot was taken.
    if (!(await this.#seesFreshData()) || this.#isInSavepoint(locks)) {
      this.restart.demand(locks, request);
    }
    try {
      await this.#keep(locks, request, 0);
      this.restart.note(locks, request);
    } catch (error) {
      if (!(error instanceof LockNotAcquiredError) || request.options.waitMs === 0) throw error;
      this.restart.demand(locks, request);
    }
  }

  async #takeInside(locks: TransactionalLocks, request: LockRequest): Promise<void> {
    if (!(await this.#seesFreshData())) throw this.#refuse('stale-snapshot', request);
    if (this.#isInSavepoint(locks)) throw this.#refuse('savepoint', request);
    const { timeoutMs = Infinity } = this.description;
    const leftMs = Math.max(0, timeoutMs - this.#ageMs);
    await this.#keep(locks, request, Math.min(request.options.waitMs, Math.floor(leftMs / 2)));
  }

  /** Kept by the outermost open transaction: the work under the lock may be part of each of them. */
  async #keep(
    locks: TransactionalLocks,
    { keys, options }: LockRequest,
    waitMs: number,
  ): Promise<void> {
    const keeper = this.#outermost;
    const sections = await locks.take(keys, { ...options, waitMs });
    if (keeper.isOpen) keeper.#kept.push(...sections.map((section) => ({ locks, section })));
    else await closeAll(sections);
  }

  /** Holds that were acquired elsewhere become the current ones of code inside the transaction. */
  async adopt(locks: TransactionalLocks, holds: readonly Hold[], caller: string): Promise<void> {
    const startedAt = this.#outermost.#startedAt;
    const younger = holds.find((hold) => hold.since > startedAt && !this.#guarding.has(hold));
    if (younger !== undefined) {
      const circumstances = { caller, keys: [younger.key] };
      if (younger.options.insideTransaction === 'reject')
        throw this.#refuse('rejected', circumstances);
      if (!(await this.#seesFreshData())) throw this.#refuse('stale-snapshot', circumstances);
    }
    await this.#guardAll(holds.map((hold) => ({ locks, hold })));
  }

  /** This transaction and those around it, the outermost first. */
  get #openHere(): readonly TransactionScope[] {
    return this.outer?.isOpen === true ? [...this.outer.#openHere, this] : [this];
  }

  get #outermost(): TransactionScope {
    return this.#openHere[0] as TransactionScope;
  }

  get #isRestartable(): boolean {
    return this.#openHere.every((scope) => scope.description.isRestartable);
  }

  #isInSavepoint(locks: TransactionalLocks): boolean {
    return this.#openHere.some(
      (scope) =>
        scope.#fenceOf(locks) !== undefined && (scope.description.depth?.(scope.tx) ?? 0) > 0,
    );
  }

  async #seesFreshData(): Promise<boolean> {
    const fresh = await Promise.all(this.#openHere.map((scope) => scope.#isFreshHere()));
    return fresh.every(Boolean);
  }

  /** Not known counts as no. */
  #isFreshHere(): Promise<boolean> {
    this.#isFresh ??= this.#isolation().then(
      (level) => level !== undefined && seesFreshData(level),
    );
    return this.#isFresh;
  }

  async #isolation(): Promise<string | undefined> {
    return this.description.isolation ?? (await this.#session?.isolation());
  }

  get #ageMs(): number {
    return systemClock.now() - this.#startedAt;
  }

  #refuse(why: Refusal, { caller, keys }: Pick<LockRequest, 'caller' | 'keys'>): Error {
    return this.#refusal(why, caller, keys[0] as string);
  }

  #refusal(why: Refusal, caller: string, key: string): Error {
    const { connection } = this;
    const { timeoutMs } = this.description;
    return refusal(why, { caller, key, connection, ageMs: this.#ageMs, timeoutMs });
  }
}
