/**
 * Makes the transactions of a TypeORM `DataSource` known to the locks. Its peer is TypeORM.
 *
 * @module nestjs-locked/typeorm
 */
export { lockAware } from './lock-aware.js';
export type { LockAwareOptions } from './lock-aware.options.js';
