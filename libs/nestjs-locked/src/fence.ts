export {
  createFenceTable,
  fenceTableSql,
  type FenceTableOptions,
} from './core/transactions/fence-table.js';
