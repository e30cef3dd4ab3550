import { SessionLimits } from './session-limits.js';

/** Knowledge about a database from earlier transactions, which saves later ones queries. */
export class KnownDatabase {
  readonly limits = new SessionLimits();
  /** Whether INSERT supports RETURNING: MariaDB does, MySQL does not. */
  hasReturning = true;
}
