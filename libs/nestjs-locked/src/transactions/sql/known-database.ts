import { SessionLimits } from './session-limits.js';

/** What the transactions of one database have shown of it, so that later ones can ask less. */
export class KnownDatabase {
  readonly limits = new SessionLimits();
  /** Whether an INSERT can tell what it has written: MariaDB has this, MySQL has not. */
  hasReturning = true;
}
