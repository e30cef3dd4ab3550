/**
 * Makes the transactions of a TypeORM `DataSource` known to the locks. Peer dependency: TypeORM.
 *
 * @module nestjs-locked/typeorm
 */
export { lockAwareDataSource } from './lock-aware-data-source.js';
export type { LockAwareDataSourceOptions } from './lock-aware-data-source.options.js';
