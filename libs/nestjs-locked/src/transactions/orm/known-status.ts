import type { SqlDialect, TransactionStatus } from '../sql/database-session.js';
import { statusIn } from '../sql/server-status.js';
import { type PgClient, statusOf } from './pg-client.js';

/**
 * The known status of a query runner's transaction between the gate and its COMMIT, where hooks may end it, or swallow
 * the error that ended it. A node-postgres client always knows it. MySQL and MariaDB report it with their answers, but
 * not with an error, such as that of a deadlock: then a query is needed.
 */
export class KnownStatus {
  readonly #dialect: SqlDialect | undefined;
  #told: TransactionStatus | undefined;
  /** The statement whose answer counts. */
  #latest: unknown;
  #canTell = true;

  constructor(dialect: SqlDialect | undefined) {
    this.#dialect = dialect;
  }

  /** Sends a statement. @returns its answer */
  async after(send: () => Promise<unknown>): Promise<unknown> {
    const before = this.#told;
    const sent = (this.#latest = {});
    this.#told = undefined;
    const answer = await send();
    if (this.#latest === sent) this.#told = statusIn(answer) ?? before;
    return answer;
  }

  /** Whether a query is needed. */
  get mustBeAsked(): boolean {
    return this.#dialect === 'mysql' && this.#canTell && this.#told === undefined;
  }

  /** @param send sends a statement, and calls back when it was answered */
  async ask(send: (args: unknown[]) => unknown): Promise<void> {
    const asked = (this.#latest = {});
    const told = await new Promise<TransactionStatus | undefined>((resolve) => {
      // Without an answer, the status is unknown, and the COMMIT must not be sent.
      const answered = (error: unknown, answer: unknown): void =>
        resolve(error ? 'failed' : statusIn(answer));
      send(['DO 0', answered]);
    });
    this.#canTell = told !== undefined;
    if (this.#latest === asked) this.#told = told;
  }

  /** @returns undefined if unknown */
  on(connection: unknown): TransactionStatus | undefined {
    return this.#dialect === 'mysql' ? this.#told : statusOf(connection as PgClient);
  }
}
