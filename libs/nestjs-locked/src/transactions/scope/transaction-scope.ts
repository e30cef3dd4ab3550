import type {
  AskedLocks,
  OpenTransaction,
  TransactionalLocks,
} from '../../core/calls/open-transaction.js';
import type { ReentryLevel } from '../../core/calls/reentry-level.js';
import { noteUnwritten, unwrittenIsKnown } from '../../core/calls/unwritten-work.js';
import type { Hold } from '../../core/queue/hold.js';
import { systemClock } from '../../core/time/clock.js';
import { isUnfenced } from '../fence/unfenced.js';
import {
  type DatabaseSession,
  seesFreshData,
  type TransactionStatus,
} from '../sql/database-session.js';
import { isOfStatement } from '../sql/sql-error.js';
import { commitsByBeginning, endingIn, isCommitFollowed } from '../sql/transaction-endings.js';
import { Branches } from './branches.js';
import { CommitGate } from './commit-gate.js';
import { type GuardingHold, holdsHere } from './guarding-hold.js';
import { LocksInside, type TransactionLevel } from './locks-inside.js';
import type { TransactionDescription } from './transaction-description.js';
import type { TransactionOutcome } from './transaction-outcome.js';
import { type Refusal, refusal } from './transaction-refusal.js';
import { AFTERMATH_MS, type TransactionRun } from './transaction-run.js';
import { type NoteAnswer, WatchedCommit } from './watched-commit.js';

/** The isolation level of a transaction can only be set before its first statement. */
const SETS_ISOLATION = /^\s*SET\s+TRANSACTION\b[^;]*\bISOLATION\b/i;

/** Call sites in messages about something other than a lock request. */
const A_TRANSACTION = { callSite: 'A transaction', keys: [] };
export const A_STATEMENT = { callSite: 'A statement', keys: [] };
const A_COMMIT = { callSite: 'A COMMIT', keys: [] };

/** Those of the holds that an outer transaction has claimed in the same database, and keeps until it has ended. */
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

/**
 * One transaction, from its first statement to the answer to COMMIT or ROLLBACK; savepoints are part of it. It ends
 * only when every locked call inside it has ended.
 *
 * The scope knows the state of the transaction, and what each state allows. The `CommitGate` precedes its COMMIT,
 * `LocksInside` handles locks requested inside, and `Branches` knows whether locked calls still run in it.
 */
export class TransactionScope implements OpenTransaction, TransactionLevel {
  readonly description: TransactionDescription;
  readonly tx: object;
  /** The enclosing transaction in the same async context. */
  readonly outer: TransactionScope | undefined;
  /** Shared with the outer transactions, because the outermost one is run again. */
  readonly run: TransactionRun;
  readonly commit: WatchedCommit;
  readonly inside: LocksInside = new LocksInside(this);
  readonly startedAt = systemClock.now();
  readonly #session: DatabaseSession | undefined;
  readonly #gate: CommitGate;
  readonly #branches = new Branches();
  readonly #isFenced = !isUnfenced();
  /**
   * open        the body runs
   * committing  the body is done: locks and locked calls are refused, but statements pass, because ORMs run hooks
   * failing     rolled back when no locked call runs in it any more; until then, everything in it is refused,
   *             including a COMMIT of code that has swallowed the failure
   * ended       committed, rolled back, or unknown: a lock requested now is an ordinary one
   */
  #state: 'open' | 'committing' | 'failing' | 'ended' = 'open';
  #bodyRuns = false;
  /** The error of its body or gate. */
  #failure: unknown;
  /** Whether locks were held or requested in it. Otherwise it is left unchanged. */
  #isLocked = false;
  /** Set if the body has ended the transaction with a statement, or has tried to. */
  #endedInside: Error | undefined;
  #hasRefusedEnd = false;
  #rolledBackAt = -Infinity;
  /** Locks taken inside it ('join'), which it has to release. */
  readonly #kept: {
    readonly locks: TransactionalLocks;
    readonly level: ReentryLevel;
    /** To be called once it is released. */
    readonly released: () => void;
  }[] = [];
  #seesFreshData: Promise<boolean | undefined> | undefined;
  readonly #endings: ((outcome: TransactionOutcome) => void)[] = [];

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
    this.#gate = new CommitGate(this.connection, this.#session);
    this.commit = new WatchedCommit(this.#gate, () => description.close?.(tx));
  }

  get connection(): string {
    return this.description.connection ?? 'default';
  }

  get isOpen(): boolean {
    return this.#state !== 'ended';
  }

  /** Whether locks were held, or requested, in it. */
  get isLocked(): boolean {
    return this.#isLocked;
  }

  /** Whether its body is done and the opening code is about to commit or roll back. */
  get isEnding(): boolean {
    return this.#state === 'committing' || this.#state === 'failing';
  }

  /** Whether its claims are certainly still in force: neither COMMIT nor ROLLBACK was sent. */
  get keepsClaims(): boolean {
    if (this.#state === 'open') return !this.commit.isRolledBack;
    const isSeen = this.isEnding && this.description.seesCommit?.(this.tx) === true;
    return isSeen && this.commit.isUnsent;
  }

  /** Whether the running code is inside it. */
  get isAmbient(): boolean {
    return this.isOpen && this.description.isAmbient(this.tx);
  }

  get levels(): readonly TransactionScope[] {
    const around = this.outer?.levels ?? [];
    return [...around.filter(({ isOpen }) => isOpen), this]; // one of those in between may have ended
  }

  get hasOutlived(): boolean {
    return this.outer === undefined ? !this.isOpen : this.outer.hasOutlived;
  }

  get ageMs(): number {
    return systemClock.now() - this.startedAt;
  }

  // ---- beginning and ending ---------------------------------------------------------------------------------

  /**
   * Runs the body between the claim and the gate. A failure is thrown, and so the rollback begun, only when no locked
   * call runs in the transaction any more.
   */
  async enter<R>(body: () => Promise<R>): Promise<R> {
    await this.begin();
    try {
      const result = await this.#runBody(body);
      await this.beforeCommit();
      return result;
    } catch (caught) {
      // An ORM wraps the error that refused its statement, such as that of the gate after a ROLLBACK of the body.
      const error = isOfStatement(caught, this.#endedInside) ? this.#endedInside : caught;
      this.#state = 'failing';
      this.#failure = error;
      throw (await this.#branches.ended()) ? error : this.#giveUpOnBranches(error);
    }
  }

  get #isByHand(): boolean {
    return this.description.notRestartable === 'by-hand';
  }

  /** A manually driven transaction counts as in its body until it is ended by the proper methods. */
  get #isInBody(): boolean {
    return this.#bodyRuns || (this.#isByHand && this.#state === 'open');
  }

  /**
   * Called for a manually driven transaction that continues because its COMMIT was not sent: it may be rolled back, or
   * committed again. After a COMMIT refused in flight, only a rollback is possible.
   */
  commitFailed(): void {
    if (this.#state === 'committing') this.#state = this.commit.veto ? 'failing' : 'open';
  }

  /** Like `commitFailed`, after the gate. */
  async commitUnsent(): Promise<void> {
    this.commitFailed();
    // If this fails, the next gate detects it.
    if (this.#state === 'open') await this.#session?.mayCommitAgain?.().catch(() => {});
  }

  /**
   * Refuses another COMMIT of a manually driven transaction by code that does not know that it has ended.
   * @throws LockInTransactionError under a lock, which was released with it
   */
  assertNotEnded(): void {
    if (!this.isOpen && this.#isLocked) throw this.refusal('ended', A_COMMIT);
  }

  /** Called when the opening code rolls it back. */
  beforeRollback(): void {
    if (this.isOpen) this.#state = 'failing';
  }

  /**
   * Called when a manually driven transaction was rolled back without its code, which believes that it has committed.
   */
  leftUncommitted(): void {
    noteUnwritten(this.#gate.holds.keys(), this.refusal('left-uncommitted', A_TRANSACTION));
  }

  async #runBody<R>(body: () => Promise<R>): Promise<R> {
    this.#bodyRuns = true;
    try {
      return await body();
    } finally {
      this.#bodyRuns = false;
    }
  }

  /**
   * Handles a locked call that has not ended in time. It may run indefinitely, so no second run may begin beside it.
   */
  #giveUpOnBranches(cause: unknown): Error {
    const error = this.refusal('endless-branch', A_TRANSACTION);
    error.cause = cause;
    this.run.cannotBeRepeated(error);
    return error;
  }

  /** Called before the first statement of the body: claims every hold of the context. */
  async begin(): Promise<void> {
    const holds = holdsHere();
    if (holds.length === 0) return;
    this.#isLocked = true;
    this.#assertNotClaimedAround(holds);
    await this.#gate.begin(holds);
  }

  /** The gate before COMMIT. @throws if the COMMIT is forbidden, after which the transaction is rolled back */
  async beforeCommit(): Promise<void> {
    if (this.#branches.areRunning) await this.#branches.endOfTurn();
    this.run.assertGoesOn(); // the body may have swallowed the restart
    if (this.commit.veto !== undefined) throw this.commit.veto;
    if (this.#branches.areRunning) throw this.refusal('unawaited-branch', A_TRANSACTION);
    this.assertNoneNested();
    // If the driver itself has rolled it back, the query of the gate gets the reason.
    if ((this.#isByHand || this.#hasRefusedEnd) && this.#endedInside) throw this.#endedInside;
    this.#state = 'committing';
    await this.commit.passGate();
    if (this.#endedInside !== undefined) throw this.#endedInside;
    this.commit.expect(this.description.seesCommit?.(this.tx) === true);
  }

  /**
   * Refuses to end the transaction with a savepoint open, which an ORM that counts savepoints would end instead.
   *
   * @param isOpen whether a nested transaction is known to be open in it
   * @throws LockInTransactionError if so
   */
  assertNoneNested(isOpen = (this.description.depth?.(this.tx) ?? 0) > 0): void {
    if (this.#isLocked && isOpen) throw this.refusal('open-savepoint', A_TRANSACTION);
  }

  /**
   * Called when a nested transaction would end it completely, so that only a rollback is possible. @returns the error
   */
  endedByNested(): Error {
    return (this.#endedInside ??= this.refusal('ended-by-nested', A_TRANSACTION));
  }

  /**
   * Called when the driver repeats it, or the opening code opens another one.
   * @throws LockCommitUnknownError under a lock, if the outcome is unknown
   */
  async repeats(): Promise<void> {
    // A driver without SQL repeats only transactions known to be rolled back.
    const mayBeCommitted = this.#state === 'committing' && this.#session !== undefined;
    const { outcome, told } = this.commit.succeededBy(mayBeCommitted);
    const isRolledBack = outcome === 'rolled-back';
    if (!isRolledBack) this.run.commitUnknown(this.refusal('opened-twice', A_TRANSACTION));
    await this.end(outcome, told, isRolledBack);
    if (outcome === 'unknown' && told instanceof Error) throw told;
  }

  /** Never throws: a failed release must not look like a failed transaction. */
  async end(
    outcome: TransactionOutcome,
    error?: unknown,
    isRepeatedByDriver = false,
  ): Promise<void> {
    if (!this.isOpen) return;
    this.#state = 'ended';
    this.commit.end();
    if (outcome === 'committed') unwrittenIsKnown(this.#gate.holds.keys()); // a retry has succeeded
    if (outcome === 'rolled-back') this.#rolledBackAt = systemClock.now();
    const doubt = outcome === 'unknown' ? this.commit.doubt(error) : undefined;
    if (doubt !== undefined) this.run.commitUnknown(doubt);
    if (isRepeatedByDriver || this.run.isRepeated)
      for (const { level } of this.#kept) level.hold.keptUntil = -Infinity;
    else this.inside.workCounts();
    this.#gate.end(doubt, this.#bodyRuns); // it may have been the last to keep a hold
    for (const onEnd of this.#endings) onEnd(outcome);
    if (this.#kept.length === 0) return;
    const ended = this.#kept.filter(({ level }) => level.hold.users === 1);
    const closing = this.#kept.map(({ level, released }) => level.close().finally(released));
    for (const closed of closing) closed.catch(() => {}); // already reported
    // Unawaited work may still use some of the locks, and is not waited for.
    await Promise.allSettled(ended.map(({ level }) => level.close()));
  }

  atEnd(onEnd: (outcome: TransactionOutcome) => void): void {
    this.#endings.push(onEnd);
  }

  // ---- what may still be done in it -------------------------------------------------------------------------

  /**
   * Called before code inside it gets separate access to the database.
   *
   * @throws TransactionRestart if it is run again · LockInTransactionError if it is being or was recently rolled back:
   * work meant to be part of it would be committed separately
   */
  assertNotFailed(): void {
    if (!this.#isLocked) return;
    if (this.run.isJustAbandoned) this.run.assertGoesOn();
    if (this.#state === 'failing' || this.#wasRolledBack)
      throw this.refusal('failing', A_STATEMENT);
  }

  get #wasRolledBack(): boolean {
    return systemClock.now() < this.#rolledBackAt + AFTERMATH_MS;
  }

  /** Whether requests of code started in it are still refused or decided by it. */
  get matters(): boolean {
    return this.isOpen || this.run.isJustAbandoned || (this.#isLocked && this.#wasRolledBack);
  }

  /**
   * Called before a statement of the body is sent.
   * @throws TransactionRestart if it is run again · LockInTransactionError if it is rolled back, or the statement comes
   * too late
   */
  assertTakes(sql: string | undefined): void {
    this.run.assertGoesOn();
    if (!this.#isLocked) return;
    if (this.#state === 'failing') throw this.refusal('failing', A_STATEMENT);
    if (this.#endedInside !== undefined) throw this.#endedInside;
    if (this.#state === 'ended') throw this.refusal('ended', A_STATEMENT);
    if (sql !== undefined && this.#isInBody) this.sending(sql, undefined, true);
    if (sql !== undefined && this.#gate.hasSpoken && SETS_ISOLATION.test(sql)) {
      throw this.refusal('isolation', { callSite: 'SET TRANSACTION', keys: [] });
    }
  }

  /**
   * Called where a statement leaves the ORM, if its text is visible there.
   *
   * @param status what the driver knows of the transaction
   * @param isOnItsWay whether it has not reached the driver yet, and is shown again when it does
   * @returns the callback for the answer, if that matters
   * @throws if the statement must not be sent, because the body may not end its transaction, or a COMMIT has lost its
   * locks
   */
  sending(sql: string, status?: TransactionStatus, isOnItsWay = false): NoteAnswer | undefined {
    if (this.#state === 'ended' || !this.#isLocked) return undefined;
    const ending = this.#beginsAnother(sql) ? 'commit' : endingIn(sql, this.#session?.dialect);
    if (ending === undefined) return undefined;
    if (ending === 'rollback') {
      if (this.#isInBody) this.#endedInside ??= this.refusal('rolled-back-inside', A_TRANSACTION);
      else if (!isOnItsWay) this.commit.rollingBack();
      return undefined;
    }
    if (this.#state === 'committing') {
      if (ending !== 'commit') {
        if (!isOnItsWay) this.commit.rollingBack();
        return undefined;
      }
      if (isOnItsWay) return this.commit.assertMayBeSent(status);
      return this.commit.sending(sql, status, isCommitFollowed(sql, this.#session?.dialect));
    }
    if (this.#state === 'failing') {
      // It is being rolled back, or was, and this is the COMMIT of the next one, of a hook.
      if (ending === 'mixed' || this.commit.isRolledBack) return undefined;
      const error = this.refusal('has-failed', A_COMMIT);
      error.cause = this.#failure;
      return this.commit.refuse(error);
    }
    this.#hasRefusedEnd = true;
    throw (this.#endedInside ??= this.refusal('ends-it', A_STATEMENT));
  }

  /**
   * Called when the statement waits for the answers to others on its connection, for at most as long as for its own.
   * @throws as `sending`
   */
  waitsForTurn(sql: string): void {
    this.sending(sql, undefined, true);
    this.commit.waitsForTurn();
  }

  /**
   * Called when its connection was released in a hook and may have another user.
   * @throws LockInTransactionError if this statement would commit that user's work
   */
  assertNotReleased(sql: string): void {
    if (!this.#isLocked || endingIn(sql, this.#session?.dialect) === 'rollback') return;
    this.commit.refuse(this.refusal('ended', A_COMMIT));
  }

  /**
   * Called before a hook sends a statement that does not end the transaction.
   * @throws if a hook has ended the transaction before its COMMIT, so that the statement would take effect separately
   */
  assertNotEndedByHook(): void {
    if (this.#state === 'committing') this.commit.assertNotRolledBack();
  }

  /** Whether the statement begins a transaction, which on MySQL commits the open one. */
  #beginsAnother(sql: string): boolean {
    return this.#session?.dialect === 'mysql' && commitsByBeginning(sql);
  }

  /** Whether this statement would end it. */
  isEndedBy(sql: string): boolean {
    return this.#isLocked && endingIn(sql, this.#session?.dialect) !== undefined;
  }

  /** Called when locks are requested in it, or in an inner transaction. */
  #noteLocks(): void {
    for (const scope of this.levels) scope.#isLocked = true;
  }

  assertTakesWork(asker: Pick<AskedLocks, 'callSite' | 'keys'>): void {
    this.run.assertGoesOn();
    for (const scope of this.levels) {
      if (scope.#state === 'failing') throw this.refusal('failing', asker);
      if (scope.#state !== 'open') throw this.refusal('committing', asker);
    }
  }

  refusal(why: Refusal, { callSite, keys }: Pick<AskedLocks, 'callSite' | 'keys'>): Error {
    const { connection, ageMs } = this;
    const { timeoutMs } = this.description;
    return refusal(why, { callSite, key: keys[0], connection, ageMs, timeoutMs });
  }

  // ---- locks and the work under them ------------------------------------------------------------------------

  take(locks: TransactionalLocks, asked: AskedLocks): Promise<readonly ReentryLevel[]> {
    this.#noteLocks();
    return this.inside.take(locks, asked);
  }

  adopt(locks: TransactionalLocks, holds: readonly Hold[], callSite: string): Promise<void> {
    this.#noteLocks();
    return this.inside.adopt(locks, holds, callSite);
  }

  async during<T>(keys: readonly string[], work: () => T | Promise<T>): Promise<T> {
    this.#noteLocks();
    this.assertTakesWork({ callSite: 'A locked call', keys });
    return this.#branches.run(work);
  }

  kept(locks: TransactionalLocks): readonly ReentryLevel[] {
    return this.#kept.filter((one) => one.locks === locks).map(({ level }) => level);
  }

  keep(locks: TransactionalLocks, taken: readonly ReentryLevel[]): boolean {
    if (this.#state !== 'open') return false;
    for (const level of taken) {
      level.isOfTransaction = true;
      this.#kept.push({ locks, level, released: locks.keep() });
    }
    return true;
  }

  guards(hold: Hold): boolean {
    return this.#gate.guards(hold);
  }

  hasClaimed(locks: TransactionalLocks, key: string): boolean {
    return this.#gate.hasClaimed(locks, key);
  }

  async guardWith(holds: readonly GuardingHold[]): Promise<void> {
    const added = this.#gate.missing(holds);
    if (added.length === 0) return;
    this.#isLocked = true;
    this.#assertNotClaimedAround(added);
    await this.#gate.add(added, () => (this.description.depth?.(this.tx) ?? 0) > 0);
  }

  /**
   * Refuses a claim of a row that the outer transaction has locked, which waits for this one to end. @throws
   * LockInTransactionError
   */
  #assertNotClaimedAround(holds: readonly GuardingHold[]): void {
    if (!this.#isFenced) return;
    for (const { hold } of claimedAround(this.outer, this.connection, holds)) {
      throw this.refusal('own-claim', { callSite: 'A second transaction', keys: [hold.key] });
    }
  }

  seesFreshData(): Promise<boolean | undefined> {
    this.#seesFreshData ??= this.#isolation().then((level) =>
      level === undefined ? undefined : seesFreshData(level),
    );
    return this.#seesFreshData;
  }

  /** The level reported by the database takes precedence over the one given at its opening. */
  async #isolation(): Promise<string | undefined> {
    return (await this.#session?.isolation()) ?? this.description.isolation;
  }
}
