export {
  createFenceTable,
  fenceTableSql,
  type FenceTableOptions,
} from './core/transactions/fence-table.js';
export type { SqlDialect } from './core/transactions/session-of.js';
