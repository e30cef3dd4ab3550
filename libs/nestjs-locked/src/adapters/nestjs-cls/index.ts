export { lockAware, type LockAwareOptions } from './lock-aware.js';
export type { ErrorSource } from '../../core/transactions/pg-clients.js';
export type { SqlDialect } from '../../core/transactions/session-of.js';
