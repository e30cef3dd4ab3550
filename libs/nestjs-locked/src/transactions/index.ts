/**
 * Makes transactions that no adapter opens known to the locks, and maintains the table in which a database keeps
 * fencing numbers.
 *
 * @module nestjs-locked/transactions
 */
export { createFenceTable, type FenceTableOptions, fenceTableSql } from './fence/fence-table.js';
export { pruneFenceTable, type PruneFenceTableOptions } from './fence/prune-fence-table.js';
export { unfenced } from './fence/unfenced.js';
export {
  lockAwareTransactions,
  type RunTransaction,
  type TransactionGiven,
  type TransactionsOptions,
  type WrapBody,
} from './orm/lock-aware-transactions.js';
export type { SqlDialect, TransactionQuery } from './sql/database-session.js';
