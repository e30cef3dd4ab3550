export {
  createFenceTable,
  fenceTableSql,
  type FenceTableOptions,
} from './core/transactions/fence-table.js';
export {
  pruneFenceTable,
  type PruneFenceTableOptions,
} from './core/transactions/prune-fence-table.js';
export type { TransactionQuery } from './core/transactions/database-session.js';
export type { SqlDialect } from './core/transactions/session-of.js';
