import type { DatabaseSession } from '../sql/database-session.js';

/** What an adapter knows about a transaction that it opens. */
export interface TransactionDescription {
  /** Tells several databases apart. @default 'default' */
  readonly connection?: string;
  /** As given when it was opened: `REPEATABLE READ`. Undefined: the database is asked if it matters. */
  readonly isolation?: string;
  /** How long the ORM lets it live, from its beginning. @default no limit that is known */
  readonly timeoutMs?: number;
  /** Why its body cannot be run again. Undefined: it can. */
  readonly notRestartable?: 'by-hand' | 'hooks';
  /**
   * Whether it is certain, before it is opened, that it is none of those that are open: then it is refused without a
   * connection if it would wait for one of them. @default no
   */
  readonly isNew?: boolean;
  /** Whether it has a connection before it is opened: others may wait for that one. @default no */
  readonly isConnected?: boolean;
  /** Whether code that runs here and now runs inside of it; false where it was suspended. */
  readonly isAmbient: (tx: object) => boolean;
  /** How deep in savepoints the code is that runs here and now. @default 0 */
  readonly depth?: (tx: object) => number;
  /** How statements are run in it; undefined if the adapter does not know the ORM. */
  readonly session: (tx: object) => DatabaseSession | undefined;
  /** Whether its COMMIT is shown to the scope when it is sent. @default no */
  readonly seesCommit?: (tx: object) => boolean;
  /** Whether a COMMIT that the database answers with ROLLBACK is found out. @default no */
  readonly tellsRollback?: () => boolean;
  /** Closes its connection, of which nobody knows in which state it is. @default nothing is done */
  readonly close?: (tx: object) => void;
}
