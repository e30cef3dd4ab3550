export { lockAware, type LockAwareOptions } from './lock-aware.js';
export type { SqlDialect } from '../../core/transactions/session-of.js';
