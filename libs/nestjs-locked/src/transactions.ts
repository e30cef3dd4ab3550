export {
  lockAwareTransactions,
  type RunTransaction,
  type TransactionGiven,
  type TransactionsOptions,
  type WrapBody,
} from './core/transactions/lock-aware-transactions.js';
export type { SqlDialect } from './core/transactions/session-of.js';
