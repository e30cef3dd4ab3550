/**
 * The table in which a database keeps fencing numbers.
 *
 * @module nestjs-locked/fence
 */
export {
  createFenceTable,
  fenceTableSql,
  type FenceTableOptions,
} from './transactions/fence/fence-table.js';
export {
  pruneFenceTable,
  type PruneFenceTableOptions,
} from './transactions/fence/prune-fence-table.js';
export { unfenced } from './transactions/fence/unfenced.js';
export type { TransactionQuery } from './transactions/sql/database-session.js';
export type { SqlDialect } from './transactions/sql/database-session.js';
