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

/** The time-out of each SQLSTATE of PostgreSQL. */
const TIMED_OUT = new Map<unknown, keyof TransactionBounds>([
  ['25P03', 'idleMs'],
  ['25P04', 'totalMs'],
  ['57014', 'statementMs'],
  ['55P03', 'lockMs'],
]);

/** How drivers and ORMs report a lost connection. */
const CONNECTION_LOST = new RegExp(
  [
    'Connection terminated', // pg
    'is not queryable', // pg
    'CONNECTION_(CLOSED|ENDED|DESTROYED)', // postgres.js
    'already released', // TypeORM, whose query runner is released with its connection
  ].join('|'),
);

/**
 * The time-outs armed in the database for one transaction. They end it so that a paused holder does not block its
 * successor. Work that is merely slow hits them too, and fails with an error that mentions neither locks nor options,
 * to which the option to check is added.
 */
export class ArmedTimeouts {
  #bounds: TransactionBounds | undefined;
  #armedAt = 0;

  /**
   * @param survivesDisconnect whether the driver survives a lost connection; if not, no time-out that closes it is
   * armed
   */
  watch(
    session: DatabaseSession | undefined,
    survivesDisconnect: boolean,
  ): DatabaseSession | undefined {
    this.#bounds = undefined; // this may be a later run
    if (session === undefined) return undefined;
    const note = (bounds: TransactionBounds | undefined): void => {
      if (bounds === undefined || !session.armsBounds) return;
      this.#bounds = bounds;
      this.#armedAt = systemClock.now();
    };
    return new WatchedSession(session, survivesDisconnect, note);
  }

  /** Extends the message of an error that was, or may have been, caused by one of the time-outs. */
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

  /** Whether an idle time-out may be the cause: a connection closed while idle does not say why. */
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
 * The bounds that may be armed. A statement that takes too long fails, but a transaction that is idle or takes too long
 * loses its connection.
 *
 * @param survivesDisconnect whether the driver survives that
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
  return `the database ends a transaction under a lock that is idle, or waits, longer than the lease allows (transactionTimeouts: ${bounds.join(', ')}); raise leaseMs, or set your own transactionTimeouts`;
}

/** Changes only the message of a driver's error, so that code still recognizes its class and code. */
function addToMessage(error: Error, addition: string): void {
  const { message, stack } = error;
  // It is frozen, or an inner transaction has added the same.
  if (Object.isFrozen(error) || message.includes(addition)) return;
  error.message = `${message} [${addition}]`;
  // Logs print the stack, which was created with the error.
  if (stack !== undefined) error.stack = stack.replace(message, () => error.message);
}
