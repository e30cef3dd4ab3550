import type {
  ClaimOutcome,
  DatabaseSession,
  FenceClaim,
  SqlDialect,
  TransactionBounds,
} from '../sql/database-session.js';
import type { DelayedBegin } from './delayed-begin.js';

/** A session whose first statement may carry the BEGIN of its transaction. */
export class FirstStatementSession implements DatabaseSession {
  readonly dialect: SqlDialect;
  readonly armsBounds: boolean;
  readonly #session: DatabaseSession;
  readonly #begin: DelayedBegin;

  constructor(session: DatabaseSession, begin: DelayedBegin) {
    this.dialect = session.dialect;
    this.armsBounds = session.armsBounds;
    this.#session = session;
    this.#begin = begin;
  }

  async begin(): Promise<void> {
    await this.#session.begin();
  }

  claim(
    table: string,
    claims: readonly FenceClaim[],
    bounds: TransactionBounds | undefined,
    waitMs: number,
  ): Promise<ClaimOutcome> {
    return this.#begin.speaking(() => this.#session.claim(table, claims, bounds, waitMs));
  }

  arm(bounds: TransactionBounds): Promise<void> {
    return this.#begin.speaking(() => this.#session.arm(bounds));
  }

  assertBegun(): void {
    this.#session.assertBegun?.();
  }

  async beforeCommit(idleMs: number | undefined): Promise<void> {
    await this.#session.beforeCommit(idleMs);
  }

  async isolation(): Promise<string | undefined> {
    return this.#session.isolation();
  }
}
