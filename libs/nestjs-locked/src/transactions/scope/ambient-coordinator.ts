import type {
  TransactionalLocks,
  TransactionCoordinator,
} from '../../core/calls/open-transaction.js';
import type { ReentryLevel } from '../../core/calls/reentry-level.js';
import { sharedCoordinator } from '../../core/calls/transaction-registry.js';
import { ContextVariable } from '../../core/context-variable.js';
import { LockError } from '../../core/lock.errors.js';
import type { Hold } from '../../core/queue/hold.js';
import { retryingConflicts } from '../fence/fence.js';
import { isUnfenced } from '../fence/unfenced.js';
import {
  areFirst,
  drawAgain,
  drawTickets,
  returnTickets,
  type Ticket,
  withTickets,
} from './claim-tickets.js';
import { assertNoDoubt } from './commit-doubt.js';
import {
  assertNamesAreKnown,
  assertNoneAcquired,
  type GuardingHold,
  holdsHere,
  isFenced,
} from './guarding-hold.js';
import { HookContext } from './hook-context.js';
import { assertNotClaimedAround } from './own-claim.js';
import { RepeatedRuns } from './repeated-runs.js';
import { outwards, ScopeHere } from './scope-here.js';
import type { TransactionDescription } from './transaction-description.js';
import { TransactionGuard } from './transaction-guard.js';
import { TransactionRun } from './transaction-run.js';
import { A_STATEMENT, claimedAround, TransactionScope } from './transaction-scope.js';
import { UnfencedNotices } from './unfenced-notices.js';
import type { NoteAnswer } from './watched-commit.js';

/**
 * Runs the body of a transaction; the adapter calls it when the transaction is open, with the object that identifies
 * it.
 */
export type EnterTransaction<R> = (tx: object, body: () => Promise<R>) => Promise<R>;

/** The open transactions of this process, by async context. Adapters register every transaction that they open. */
export class AmbientCoordinator implements TransactionCoordinator {
  readonly #scopeHere = new ContextVariable<ScopeHere>();
  readonly guardsAnywhere = (hold: Hold): boolean => TransactionGuard.isGuarded(hold);
  /** The latest scope of each transaction object. */
  readonly #scopes = new WeakMap<object, TransactionScope>();
  /** The names of all connections whose transactions are seen. */
  readonly #connections = new Set<string>();
  readonly #notices = new UnfencedNotices();

  current(): TransactionScope | undefined {
    const scope = this.#here();
    if (scope?.run.isJustAbandoned === true) return scope; // it refuses everything
    return outwards(scope, ({ isAmbient }) => isAmbient);
  }

  kept(locks: TransactionalLocks): readonly ReentryLevel[] {
    const kept: ReentryLevel[] = [];
    for (let scope = this.#here(); scope !== undefined; scope = scope.outer) {
      if (scope.isOpen) kept.push(...scope.kept(locks));
    }
    return kept;
  }

  guards(hold: Hold): boolean {
    return outwards(this.#here(), (scope) => scope.isOpen && scope.guards(hold)) !== undefined;
  }

  workEnded(locks: TransactionalLocks, holds: readonly Hold[]): void {
    this.#notices.workEnded(locks, holds);
  }

  /**
   * For adapters: called where a statement leaves the ORM.
   *
   * @param tx the object of the transaction in which it is sent
   * @param sql its text, if known
   * @throws if the transaction takes no more statements, or the context belongs to an abandoned run
   */
  assertTakes(tx: object, sql?: string): void {
    this.assertGoesOn();
    const scope = this.#scopes.get(tx);
    scope?.assertTakes(sql);
    if (scope?.isEnding === true) this.#assertInTime(scope, this.#isInside(tx), sql);
  }

  /**
   * For adapters: called where a statement reaches the driver, possibly later than `assertTakes`.
   *
   * @param ending its text, if it ends a transaction
   * @throws if the body of this transaction sends it after, or instead of, its COMMIT or ROLLBACK
   */
  assertBeforeCommit(tx: object, ending?: string): void {
    const scope = this.#scopes.get(tx);
    const mayBeLate = ending === undefined ? scope?.commit.isSent : scope?.isEnding;
    if (scope && mayBeLate === true && this.#isInside(tx)) this.#assertInTime(scope, true, ending);
  }

  #assertInTime(scope: TransactionScope, ofBody: boolean, sql = ''): void {
    const tellsRollback = scope.description.tellsRollback?.() === true;
    const isLate = scope.commit.comesTooLate(ofBody, tellsRollback);
    if (isLate || (ofBody && scope.isEndedBy(sql))) throw scope.refusal('ended', A_STATEMENT);
  }

  /** Like `TransactionScope.sending`. @param tx the object of the transaction in which it is sent */
  sending(tx: object, ...sent: Parameters<TransactionScope['sending']>): NoteAnswer | undefined {
    return this.#scopes.get(tx)?.sending(...sent);
  }

  /** @throws TransactionRestart if the running code belongs to an abandoned run */
  assertGoesOn(): void {
    const run = this.#here()?.run;
    if (run?.isJustAbandoned === true) run.assertGoesOn();
  }

  /**
   * For adapters: called before code that has lost its transaction gets access to the database outside it.
   *
   * @throws if the running code was started in a transaction that must be run again or has failed
   */
  assertNotFailed(): void {
    this.#here()?.assertNotFailed();
  }

  /**
   * For adapters: called before a connection is requested for a new transaction.
   *
   * @throws LockInTransactionError if it would wait for its outer transaction
   */
  assertMayConnect(connection = 'default'): void {
    if (isUnfenced()) return;
    assertNotClaimedAround(this.#openAround(), connection, holdsHere());
  }

  /** For adapters: called for each connection whose transactions are seen from now on. */
  sees(connection = 'default'): void {
    this.#connections.add(connection);
  }

  /** For adapters: called when a statement with this text is sent outside any transaction. */
  noteStatement(connection = 'default', sql?: string): void {
    this.#notices.statement(connection, sql);
  }

  /**
   * For adapters: the scope of a transaction whose body is done, if the running code is not part of that body: it then
   * has opened the transaction and is about to end it.
   */
  endedHere(tx: object): TransactionScope | undefined {
    const scope = this.#scopes.get(tx);
    return scope?.isEnding === true && !this.#isInside(tx) ? scope : undefined;
  }

  /** Whether the running code was started in the body of this transaction. */
  isInBodyOf(scope: TransactionScope): boolean {
    return outwards(this.#here(), (one) => one === scope) !== undefined;
  }

  openScope(tx: object): TransactionScope | undefined {
    const scope = this.#scopes.get(tx);
    return scope?.isOpen === true ? scope : undefined;
  }

  /**
   * Runs a transaction with a callback.
   *
   * @param open opens it and passes the body to `enter`; may be called again to run the transaction from its beginning.
   * It may call `enter` several times, like drivers that repeat a transaction themselves
   */
  async run<R>(
    description: TransactionDescription,
    open: (enter: EnterTransaction<R>) => Promise<R>,
  ): Promise<R> {
    this.assertGoesOn();
    const outer = this.#openAround();
    const once = (run: TransactionRun): Promise<R> =>
      retryingConflicts(() =>
        withTickets(this.#toClaim(description, outer), description, (tickets) =>
          this.#once(description, open, run, outer, tickets),
        ),
      );
    return outer === undefined ? new RepeatedRuns().repeat(once) : once(outer.run);
  }

  /**
   * Follows a transaction that `start` opens manually: it cannot be run again, and which code is inside it is unknown.
   */
  async open(
    description: TransactionDescription,
    tx: object,
    start: () => Promise<void>,
  ): Promise<TransactionScope> {
    this.assertGoesOn();
    const outer = this.#openAround();
    const claimed = this.#toClaim(description, outer);
    // Without claims it starts synchronously, because callers check at once whether it is active.
    const tickets = claimed.length === 0 ? [] : await drawTickets(claimed, description);
    const hooks = new HookContext(tickets);
    try {
      await hooks.run(start);
      if (!areFirst(tickets)) await drawAgain(tickets);
    } catch (error) {
      returnTickets(tickets);
      throw error;
    }
    const scope = this.#scopeFor(description, tx, new TransactionRun(new RepeatedRuns()), outer);
    hooks.opened(scope);
    scope.atEnd(() => returnTickets(tickets));
    return scope;
  }

  #here(): TransactionScope | undefined {
    return this.#scopeHere.get()?.innermost?.scope;
  }

  #openAround(): TransactionScope | undefined {
    return outwards(this.#here(), ({ isOpen }) => isOpen);
  }

  async #once<R>(
    description: TransactionDescription,
    open: (enter: EnterTransaction<R>) => Promise<R>,
    run: TransactionRun,
    outer: TransactionScope | undefined,
    tickets: readonly Ticket[],
  ): Promise<R> {
    const around = this.#scopeHere.get()?.innermost;
    const hooks = new HookContext();
    let scope: TransactionScope | undefined;
    let isDone = false;
    /** Our error, which some ORMs hide behind that of their rollback. */
    let ours: LockError | undefined;
    try {
      let overdue: (error: Error) => void = () => {};
      const enter: EnterTransaction<R> = async (tx, body) => {
        if (this.#isInside(tx)) return body(); // another adapter has seen it first
        await scope?.repeats();
        isDone = false;
        ours = undefined;
        const current = (scope = hooks.opened(this.#scopeFor(description, tx, run, outer)));
        current.commit.whenOverdue((error) => overdue(error));
        try {
          if (!areFirst(tickets)) await drawAgain(tickets);
          const value = await current.enter(() =>
            this.#scopeHere.run(new ScopeHere(current, around), async () => body()),
          );
          isDone = true;
          return value;
        } catch (error) {
          if (error instanceof LockError) ours = error;
          throw error;
        }
      };
      const opened = hooks.run(async () => open(enter));
      const result = await new Promise<R>((resolve, reject) => {
        overdue = reject;
        opened.then(resolve, reject);
      });
      if (!isDone) run.assertGoesOn(); // the ORM swallowed the error
      await scope?.end(scope.commit.succeeded());
      return result;
    } catch (error) {
      if (scope === undefined) throw error;
      const { outcome, told } = scope.commit.failed(ours ?? error, isDone);
      await scope.end(outcome, told);
      throw told;
    } finally {
      hooks.end();
    }
  }

  /** The holds that a transaction opened here has to claim. */
  #toClaim(
    { connection = 'default', isNew = false }: TransactionDescription,
    outer: TransactionScope | undefined,
  ): readonly GuardingHold[] {
    const holds = holdsHere();
    this.#notices.opened(holds);
    assertNoDoubt(holds);
    if (isUnfenced()) return [];
    assertNoneAcquired(holds, connection);
    this.#connections.add(connection);
    for (const { locks } of holds) assertNamesAreKnown(locks, connection, this.#connections);
    if (isNew) assertNotClaimedAround(outer, connection, holds);
    const claimed = claimedAround(outer, connection, holds);
    return holds.filter((one) => isFenced(one, connection) && !claimed.includes(one));
  }

  #scopeFor(...args: ConstructorParameters<typeof TransactionScope>): TransactionScope {
    const scope = new TransactionScope(...args);
    this.#scopes.set(scope.tx, scope);
    if (!isUnfenced()) scope.atEnd((outcome) => this.#notices.ended(scope, outcome));
    return scope;
  }

  #isInside(tx: object): boolean {
    return outwards(this.#here(), (scope) => scope.isOpen && scope.tx === tx) !== undefined;
  }
}

/** The coordinator of this process. */
export function ambientCoordinator(): AmbientCoordinator {
  return sharedCoordinator(() => new AmbientCoordinator());
}
