export { checkHistory } from './check.js';
export type { Finding } from './finding.js';
export type { HistoryLine } from './history.js';
