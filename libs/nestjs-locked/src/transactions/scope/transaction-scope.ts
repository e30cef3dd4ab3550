import { systemClock, type CancelTimer } from '../../core/time/clock.js';
import type { Hold } from '../../core/lease/hold.js';
import type { Section } from '../../core/calls/section.js';
import type {
  AskedLocks,
  OpenTransaction,
  TransactionalLocks,
} from '../../core/calls/open-transaction.js';
import { seesFreshData, type DatabaseSession } from '../sql/database-session.js';
import { ClaimConflict } from '../fence/fence.js';
import { fenceOn, holdsHere, type GuardingHold } from './guarding-hold.js';
import type { TransactionDescription } from './transaction-description.js';
import { TransactionGuard } from './transaction-guard.js';
import { refusal, type Refusal } from './transaction-refusal.js';
import { AFTERMATH_MS, type TransactionRun } from './transaction-run.js';

/** How a transaction ended; unknown = it failed after COMMIT was sent, without an answer from the database. */
export type TransactionOutcome = 'committed' | 'rolled-back' | 'unknown';

/** How long a transaction that is rolled back waits for the locked calls that still run in it. */
const BRANCHES_LIMIT_MS = 5_000;

/** The level of a transaction can only be set before its first statement. */
const SETS_ISOLATION = /^\s*SET\s+TRANSACTION\b[^;]*\bISOLATION\b/i;

/** Those that a transaction around has claimed in the same database, and keeps to its end. */
export function claimedAround(
  outer: TransactionScope | undefined,
  connection: string,
  holds: readonly GuardingHold[],
): readonly GuardingHold[] {
  if (outer === undefined) return [];
  const claimed =
    outer.isOpen && outer.connection === connection
      ? holds.filter(({ locks, hold }) => outer.hasClaimed(locks, hold.key))
      : [];
  return [...claimed, ...claimedAround(outer.outer, connection, holds)];
}

async function closeAll(sections: readonly Section[]): Promise<void> {
  await Promise.allSettled(sections.map((section) => section.close()));
}

/**
 * One transaction, from its first statement to the database's answer to COMMIT or ROLLBACK; savepoints are part of
 * it. It ends only when every locked call inside of it has ended.
 */
export class TransactionScope implements OpenTransaction {
  readonly description: TransactionDescription;
  readonly tx: object;
  /** The transaction around it, in the same async context. */
  readonly outer: TransactionScope | undefined;
  /** Shared with the transactions around it: the outermost one is run again. */
  readonly run: TransactionRun;
  readonly #startedAt = systemClock.now();
  readonly #session: DatabaseSession | undefined;
  readonly #guard: TransactionGuard;
  /**
   * open        the body runs
   * committing  it is done, and nothing may be added
   * failing     it will be rolled back, as soon as nobody works in it any more
   */
  #state: 'open' | 'committing' | 'failing' | 'ended' = 'open';
  #bodyRuns = false;
  #rolledBackAt = -Infinity;
  /** Locks that were taken inside of it ('join'): it is the one to release them. */
  readonly #kept: { readonly locks: TransactionalLocks; readonly section: Section }[] = [];
  /** Parallel branches of the body take their locks one after the other. */
  #lastTake: Promise<unknown> = Promise.resolve();
  #isFresh: Promise<boolean> | undefined;
  /** Why it must not commit, even if somebody swallows it: a hold under which it runs could not be claimed. */
  #failure: Error | undefined;
  /** Locked calls that run inside of it. */
  #branches = 0;
  #onNoBranch: () => void = () => {};
  readonly #endings: (() => void)[] = [];

  constructor(
    description: TransactionDescription,
    tx: object,
    run: TransactionRun,
    outer: TransactionScope | undefined,
  ) {
    this.description = description;
    this.tx = tx;
    this.run = run;
    this.outer = outer;
    this.#session = description.session(tx);
    this.#guard = new TransactionGuard(this.connection, this.#session);
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

  /** The body, between the claim and the gate. It is left only when nobody works in the transaction any more. */
  async enter<R>(body: () => Promise<R>): Promise<R> {
    await this.begin();
    try {
      const result = await this.#runBody(body);
      await this.beforeCommit();
      return result;
    } catch (error) {
      this.#state = 'failing';
      throw (await this.#branchesEnd()) ? error : this.#giveUpOnBranches(error);
    }
  }

  async #runBody<R>(body: () => Promise<R>): Promise<R> {
    this.#bodyRuns = true;
    try {
      return await body();
    } finally {
      this.#bodyRuns = false;
    }
  }

  // ---- beginning and ending ---------------------------------------------------------------------------------

  /** Before the first statement of the body: claims every hold of the context. */
  async begin(): Promise<void> {
    const holds = holdsHere();
    this.#assertNotClaimedAround(holds);
    try {
      await this.#guard.begin(holds);
    } catch (error) {
      this.#failure ??= error as Error;
      throw error;
    }
  }

  /** The gate before COMMIT. @throws whatever forbids it; the transaction is rolled back then */
  async beforeCommit(): Promise<void> {
    this.run.assertGoesOn(); // somebody swallowed it
    if (this.#branches > 0) throw this.#refusal('unawaited-branch', 'A transaction');
    this.#state = 'committing';
    if (this.#failure !== undefined) throw this.#failure;
    await this.#guard.assertCanCommit();
  }

  /** Never throws: what becomes of a release must not look like what became of the transaction. */
  async end(outcome: TransactionOutcome): Promise<void> {
    if (!this.isOpen) return;
    this.#state = 'ended';
    if (outcome === 'rolled-back') this.#rolledBackAt = systemClock.now();
    if (outcome === 'unknown') this.#guard.commitUnknown();
    if (this.#bodyRuns) this.#guard.loseHolds();
    this.#guard.release();
    for (const onEnd of this.#endings) onEnd();
    const ended = this.#kept.filter(({ section }) => section.hold.users === 1);
    const closing = this.#kept.map(({ section }) => section.close());
    for (const closed of closing) closed.catch(() => {}); // reported
    // Work that was not awaited may use some of them still; nobody waits for that here.
    await closeAll(ended.map(({ section }) => section));
  }

  atEnd(onEnd: () => void): void {
    this.#endings.push(onEnd);
  }

  // ---- work inside ------------------------------------------------------------------------------------------

  /**
   * Before code that runs inside of it looks for another way into the database.
   *
   * @throws TransactionRestart if it begins anew · LockInTransactionError if it is rolled back, or was a moment ago:
   * what was meant to be a part of it would be committed by itself
   */
  assertNotFailed(): void {
    if (this.run.isJustAbandoned) this.run.assertGoesOn();
    const wasRolledBack = systemClock.now() < this.#rolledBackAt + AFTERMATH_MS;
    if (this.#state === 'failing' || wasRolledBack) throw this.#refusal('failing', 'A statement');
  }

  /**
   * Before a statement of the body is sent.
   * @throws TransactionRestart if it begins anew · LockInTransactionError if it is rolled back, or the statement comes
   * too late for it
   */
  assertTakes(sql: string | undefined): void {
    this.run.assertGoesOn();
    if (this.#state === 'failing') throw this.#refusal('failing', 'A statement');
    if (this.#state === 'ended') throw this.#refusal('ended', 'A statement');
    if (sql !== undefined && this.#guard.hasSpoken && SETS_ISOLATION.test(sql)) {
      throw this.#refusal('isolation', 'SET TRANSACTION');
    }
  }

  async during<T>(keys: readonly string[], work: () => T | Promise<T>): Promise<T> {
    this.#assertOpen('A locked call', keys);
    this.#branches++;
    try {
      return await work();
    } finally {
      this.#branches--;
      if (this.#branches === 0) this.#onNoBranch();
    }
  }

  /** @returns false if they go on for too long */
  #branchesEnd(): Promise<boolean> {
    if (this.#branches === 0) return Promise.resolve(true);
    return new Promise((resolve) => {
      const cancel: CancelTimer = systemClock.after(BRANCHES_LIMIT_MS, () => resolve(false));
      this.#onNoBranch = () => {
        cancel();
        resolve(true);
      };
    });
  }

  #giveUpOnBranches(cause: unknown): Error {
    const error = this.#refusal('endless-branch', 'A transaction');
    error.cause = cause;
    this.run.cannotBeRepeated(error);
    return error;
  }

  hasClaimed(locks: TransactionalLocks, key: string): boolean {
    return this.#guard.hasClaimed(locks, key);
  }

  // ---- locks asked for inside -------------------------------------------------------------------------------

  keptSections(locks: TransactionalLocks): readonly Section[] {
    return this.#kept.filter((kept) => kept.locks === locks).map(({ section }) => section);
  }

  guards(hold: Hold): boolean {
    return this.#guard.has(hold);
  }

  /** The work under a lock may be part of each transaction that is open here: each is guarded by it. */
  async take(locks: TransactionalLocks, request: AskedLocks): Promise<readonly Section[]> {
    await this.#takeMissing(locks, request);
    const sections = await locks.take(request.keys, request.options); // joins what is there now
    try {
      this.run.assertGoesOn();
      if (!this.isOpen) return sections; // ordinary ones: nobody has waited for the work that asks
      this.#assertOpen(request.callSite, request.keys);
      await this.#guardAll(sections.map(({ hold }) => ({ locks, hold })));
    } catch (error) {
      await closeAll(sections);
      throw error;
    }
    return sections;
  }

  async #takeMissing(locks: TransactionalLocks, asked: AskedLocks): Promise<void> {
    this.run.assertGoesOn();
    const request = this.#missing(locks, asked);
    if (request.keys.length === 0) return;
    this.run.assertNotRefused(locks, request);
    switch (request.options.insideTransaction) {
      case 'reject':
        this.#assertOpen(request.callSite, request.keys);
        throw this.#refusal('rejected', request.callSite, request.keys);
      case 'restart':
        return this.#beginAnew(request, () => this.run.demand(locks, request));
      case 'join':
        return this.#outermost.#inTurn(() => this.#takeInside(locks, asked));
    }
  }

  #missing(locks: TransactionalLocks, asked: AskedLocks): AskedLocks {
    const held = new Set(locks.heldHere().map(({ key }) => key));
    for (const scope of this.#openHere) {
      for (const { hold } of scope.keptSections(locks)) if (hold.isHeld) held.add(hold.key);
    }
    return { ...asked, keys: asked.keys.filter((key) => !held.has(key)) };
  }

  /** What was read so far may be older than the lock, whether that is free now or not: only a fresh run is under it. */
  #beginAnew(
    { callSite, keys }: Pick<AskedLocks, 'callSite' | 'keys'>,
    demand: () => never,
  ): never {
    this.#assertOpen(callSite, keys);
    if (this.run.isOver) throw this.#refusal('outlived', callSite, keys);
    for (const { description } of this.#openHere) {
      const { notRestartable } = description;
      if (notRestartable !== undefined) throw this.#refusal(notRestartable, callSite, keys);
    }
    return demand();
  }

  async #inTurn(take: () => Promise<void>): Promise<void> {
    const turn = this.#lastTake.then(take);
    this.#lastTake = turn.catch(() => {});
    return turn;
  }

  async #takeInside(locks: TransactionalLocks, asked: AskedLocks): Promise<void> {
    if (!this.isOpen) return; // an ordinary lock
    const { callSite, keys, options } = this.#missing(locks, asked);
    if (keys.length === 0) return;
    this.#assertOpen(callSite, keys);
    await this.#assertSeesFreshData(callSite, keys);
    if (this.#isInSavepoint(locks)) throw this.#refusal('savepoint', callSite, keys);
    const { timeoutMs = Infinity } = this.description;
    const leftMs = Math.max(0, timeoutMs - this.#ageMs);
    const waitMs = Math.min(options.waitMs, Math.floor(leftMs / 2));
    // Kept by the outermost open transaction: the work under the lock may be part of each of them.
    const keeper = this.#outermost;
    const sections = await locks.take(keys, { ...options, waitMs });
    if (keeper.#state === 'open') {
      keeper.#kept.push(...sections.map((section) => ({ locks, section })));
    } else {
      await closeAll(sections);
    }
  }

  /** Holds that were acquired elsewhere become the current ones of code inside the transaction. */
  async adopt(locks: TransactionalLocks, holds: readonly Hold[], callSite: string): Promise<void> {
    const keys = holds.map(({ key }) => key);
    this.#assertOpen(callSite, keys);
    const startedAt = this.#outermost.#startedAt;
    const younger = holds.find((hold) => hold.since > startedAt && !this.#guard.has(hold));
    switch (younger?.options.insideTransaction) {
      case undefined:
        break;
      case 'reject':
        throw this.#refusal('rejected', callSite, keys);
      case 'restart':
        return this.#beginAnew({ callSite, keys }, () => this.run.beginAnew(keys));
      case 'join':
        await this.#assertSeesFreshData(callSite, keys);
        if (this.#isInSavepoint(locks)) throw this.#refusal('savepoint', callSite, keys);
    }
    await this.#guardAll(holds.map((hold) => ({ locks, hold })));
  }

  async #guardAll(holds: readonly GuardingHold[]): Promise<void> {
    for (const scope of this.#openHere) await scope.#addGuards(holds);
  }

  async #addGuards(holds: readonly GuardingHold[]): Promise<void> {
    const added = holds.filter(({ hold }) => !this.#guard.has(hold));
    if (added.length === 0) return;
    this.#assertNotClaimedAround(added);
    try {
      await this.#guard.add(added);
    } catch (error) {
      // The body has begun: nothing repeats it for a claim that met another one.
      const cause = error instanceof ClaimConflict ? error.cause : error;
      this.#failure ??= cause as Error;
      throw cause;
    }
  }

  // ---- what forbids it --------------------------------------------------------------------------------------

  /** The row would be locked by a transaction that waits for this one to end. @throws LockInTransactionError */
  #assertNotClaimedAround(holds: readonly GuardingHold[]): void {
    for (const { hold } of claimedAround(this.outer, this.connection, holds)) {
      throw this.#refusal('own-claim', 'A transaction', [hold.key]);
    }
  }

  #assertOpen(callSite: string, keys: readonly string[]): void {
    this.run.assertGoesOn();
    for (const scope of this.#openHere) {
      if (scope.#state === 'failing') throw this.#refusal('failing', callSite, keys);
      if (scope.#state !== 'open') throw this.#refusal('committing', callSite, keys);
    }
  }

  /** This transaction and those around it, the outermost first. */
  get #openHere(): readonly TransactionScope[] {
    return this.outer?.isOpen === true ? [...this.outer.#openHere, this] : [this];
  }

  get #outermost(): TransactionScope {
    return this.#openHere[0] as TransactionScope;
  }

  #isInSavepoint(locks: TransactionalLocks): boolean {
    return this.#openHere.some(
      ({ connection, description, tx }) =>
        fenceOn(locks, connection) !== undefined && (description.depth?.(tx) ?? 0) > 0,
    );
  }

  async #assertSeesFreshData(callSite: string, keys: readonly string[]): Promise<void> {
    const fresh = await Promise.all(this.#openHere.map((scope) => scope.#isFreshHere()));
    if (!fresh.every(Boolean)) throw this.#refusal('stale-snapshot', callSite, keys);
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

  #refusal(why: Refusal, callSite: string, keys: readonly string[] = []): Error {
    const { connection } = this;
    const { timeoutMs } = this.description;
    return refusal(why, { callSite, key: keys[0], connection, ageMs: this.#ageMs, timeoutMs });
  }
}
