export { lockAware, type LockAwareOptions } from './lock-aware.js';
export type { ErrorSource } from '../../transactions/orm/pg-clients.js';
export type { SqlDialect } from '../../transactions/sql/session-of.js';
