import { LockError } from '../../core/lock.errors.js';
import { systemClock } from '../../core/time/clock.js';
import type {
  ClaimOutcome,
  DatabaseSession,
  FenceClaim,
  SqlDialect,
  TransactionBounds,
} from './database-session.js';
import { sqlErrorCode } from './sql-error.js';

/** Which time-out each SQLSTATE of PostgreSQL stands for. */
const TIMED_OUT = new Map<unknown, keyof TransactionBounds>([
  ['25P03', 'idleMs'],
  ['25P04', 'totalMs'],
  ['57014', 'statementMs'],
  ['55P03', 'lockMs'],
]);

/** How drivers and ORMs say that the connection is gone. */
const CONNECTION_LOST = new RegExp(
  [
    'Connection terminated', // pg
    'is not queryable', // pg
    'CONNECTION_(CLOSED|ENDED|DESTROYED)', // postgres.js
    'already released', // TypeORM, whose query runner is released with its connection
  ].join('|'),
);

/**
 * The time-outs that the database has been given for one transaction. They end it so that a paused holder does not
 * block its successor, but work that is only slow meets them too, and then fails with an error that names neither
 * locks nor options. To such an error is added which option to look at.
 */
export class ArmedTimeouts {
  #bounds: TransactionBounds | undefined;
  #armedAt = 0;

  /** @param survivesDisconnect false if the driver does not: then no time-out is armed that ends the connection */
  watch(
    session: DatabaseSession | undefined,
    survivesDisconnect: boolean,
  ): DatabaseSession | undefined {
    this.#bounds = undefined; // this may be another run
    if (session === undefined) return undefined;
    const note = (bounds: TransactionBounds | undefined): void => {
      if (bounds === undefined || !session.armsBounds) return;
      this.#bounds = bounds;
      this.#armedAt = systemClock.now();
    };
    return new WatchedSession(session, survivesDisconnect, note);
  }

  /** Adds to the message of an error that one of the time-outs has caused, or may have. Others stay as they are. */
  explain(error: unknown): void {
    if (!(error instanceof Error) || error instanceof LockError) return;
    const code = sqlErrorCode(error);
    const isOurs =
      code === undefined ? this.#mayHaveLostConnection(error) : this.#isArmed(TIMED_OUT.get(code));
    if (isOurs) addToMessage(error, hint(this.#bounds ?? {}));
  }

  #isArmed(name: keyof TransactionBounds | undefined): boolean {
    return name !== undefined && (this.#bounds?.[name] ?? 0) > 0;
  }

  /** A connection that was ended while it was idle does not say why. */
  #mayHaveLostConnection(error: Error): boolean {
    const { idleMs = 0 } = this.#bounds ?? {};
    const wasLongEnough = idleMs > 0 && systemClock.now() - this.#armedAt >= idleMs;
    return wasLongEnough && isConnectionLost(error);
  }
}

class WatchedSession implements DatabaseSession {
  readonly dialect: SqlDialect;
  readonly armsBounds: boolean;
  readonly #session: DatabaseSession;
  readonly #survivesDisconnect: boolean;
  readonly #note: (bounds: TransactionBounds | undefined) => void;

  constructor(
    session: DatabaseSession,
    survivesDisconnect: boolean,
    note: (bounds: TransactionBounds | undefined) => void,
  ) {
    this.dialect = session.dialect;
    this.armsBounds = session.armsBounds;
    this.#session = session;
    this.#survivesDisconnect = survivesDisconnect;
    this.#note = note;
  }

  async begin(): Promise<void> {
    await this.#session.begin();
  }

  async claim(
    table: string,
    claims: readonly FenceClaim[],
    bounds: TransactionBounds | undefined,
    waitMs: number,
  ): Promise<ClaimOutcome> {
    const allowed = bounds && armable(bounds, this.#survivesDisconnect);
    this.#note(allowed);
    return this.#session.claim(table, claims, allowed, waitMs);
  }

  async arm(bounds: TransactionBounds): Promise<void> {
    const allowed = armable(bounds, this.#survivesDisconnect);
    this.#note(allowed);
    await this.#session.arm(allowed);
  }

  assertBegun(): void {
    this.#session.assertBegun?.();
  }

  async beforeCommit(idleMs: number | undefined): Promise<void> {
    await this.#session.beforeCommit(this.#survivesDisconnect ? idleMs : undefined);
  }

  async isolation(): Promise<string | undefined> {
    return this.#session.isolation();
  }
}

/**
 * What may be armed: a statement that takes too long fails; a transaction that is idle, or takes too long, loses its
 * connection.
 *
 * @param survivesDisconnect whether the driver does
 */
export function armable(bounds: TransactionBounds, survivesDisconnect: boolean): TransactionBounds {
  if (survivesDisconnect) return bounds;
  const { statementMs, lockMs } = bounds;
  return {
    ...(statementMs === undefined ? {} : { statementMs }),
    ...(lockMs === undefined ? {} : { lockMs }),
  };
}

function isConnectionLost(error: Error): boolean {
  const { message, cause } = error;
  return CONNECTION_LOST.test(message) || (cause instanceof Error && isConnectionLost(cause));
}

function hint({ idleMs, statementMs, lockMs, totalMs }: TransactionBounds): string {
  const bounds = Object.entries({ idleMs, statementMs, lockMs, totalMs })
    .filter(([, ms]) => ms !== undefined && ms > 0)
    .map(([name, ms]) => `${name} ${ms}`);
  return `the database ends a transaction under a lock that is idle, or waits, longer than the lease allows (transactionTimeouts: ${bounds.join(', ')}); take a longer leaseMs, or give transactionTimeouts values of your own`;
}

/** Drivers' errors stay what they are, so that code that knows them by class or code still does. */
function addToMessage(error: Error, addition: string): void {
  const { message, stack } = error;
  // It is frozen, or the transaction inside of this one has added the same.
  if (Object.isFrozen(error) || message.includes(addition)) return;
  error.message = `${message} [${addition}]`;
  // The stack was written when the error was made, and is what logs print.
  if (stack !== undefined) error.stack = stack.replace(message, () => error.message);
}
