/**
 * Makes the transactions of `@nestjs-cls/transactional` known to the locks. Peer dependency: nestjs-cls.
 *
 * @module nestjs-locked/nestjs-cls
 */
export { lockAwareAdapter, type LockAwareAdapterOptions } from './lock-aware-adapter.js';
export type { ErrorSource } from '../../transactions/orm/pg-clients.js';
export type { SqlDialect } from '../../transactions/sql/database-session.js';
