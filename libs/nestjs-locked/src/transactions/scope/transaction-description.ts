import type { DatabaseSession } from '../sql/database-session.js';

/** The description of a transaction by the adapter that opens it. */
export interface TransactionDescription {
  /** Distinguishes several databases. @default 'default' */
  readonly connection?: string;
  /** The level given at its opening: `REPEATABLE READ`. If undefined, the database is queried if it matters. */
  readonly isolation?: string;
  /** The ORM's time limit, from its beginning. @default no known limit */
  readonly timeoutMs?: number;
  /** Why its body cannot be run again; undefined if it can. */
  readonly notRestartable?: 'by-hand' | 'hooks';
  /**
   * Whether it is known before its opening to be a new transaction: then it is refused without a connection if it would
   * wait for an open one. @default no
   */
  readonly isNew?: boolean;
  /** Whether it has a connection before it is opened, for which others may wait. @default no */
  readonly isConnected?: boolean;
  /** Whether the running code is inside it; false where it is suspended. */
  readonly isAmbient: (tx: object) => boolean;
  /** The savepoint depth of the running code. @default 0 */
  readonly depth?: (tx: object) => number;
  /** Runs statements in it; undefined if the adapter does not know the ORM. */
  readonly session: (tx: object) => DatabaseSession | undefined;
  /** Whether its COMMIT is shown to the scope when sent. @default no */
  readonly seesCommit?: (tx: object) => boolean;
  /** Whether a COMMIT answered with ROLLBACK is detected. @default no */
  readonly tellsRollback?: () => boolean;
  /** Closes its connection, whose state is unknown. @default does nothing */
  readonly close?: (tx: object) => void;
}
