/**
 * For transactions that no adapter opens: makes them known to the locks.
 *
 * @module nestjs-locked/transactions
 */
export {
  lockAwareTransactions,
  type RunTransaction,
  type TransactionGiven,
  type TransactionsOptions,
  type WrapBody,
} from './orm/lock-aware-transactions.js';
export type { SqlDialect } from './sql/database-session.js';
