import type { SqlDialect, TransactionStatus } from '../sql/database-session.js';
import { statusIn } from '../sql/server-status.js';
import { type PgClient, statusOf } from './pg-client.js';

/**
 * What is known of the transaction of a query runner between the gate and its COMMIT, where hooks may end it, or
 * swallow the error that has ended it. The client of node-postgres knows at any time. MySQL and MariaDB tell with their
 * answers, but not with an error, such as that of a deadlock: then they have to be asked.
 */
export class KnownStatus {
  readonly #dialect: SqlDialect | undefined;
  #told: TransactionStatus | undefined;
  /** Whose answer counts. */
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

  /** Whether the database has to be asked. */
  get mustBeAsked(): boolean {
    return this.#dialect === 'mysql' && this.#canTell && this.#told === undefined;
  }

  /** @param send sends a statement, and calls back when it was answered */
  async ask(send: (args: unknown[]) => unknown): Promise<void> {
    const asked = (this.#latest = {});
    const told = await new Promise<TransactionStatus | undefined>((resolve) => {
      // Without an answer, nobody knows: the COMMIT must not be sent then.
      const answered = (error: unknown, answer: unknown): void =>
        resolve(error ? 'failed' : statusIn(answer));
      send(['DO 0', answered]);
    });
    this.#canTell = told !== undefined;
    if (this.#latest === asked) this.#told = told;
  }

  /** @returns undefined if it is not known */
  on(connection: unknown): TransactionStatus | undefined {
    return this.#dialect === 'mysql' ? this.#told : statusOf(connection as PgClient);
  }
}
