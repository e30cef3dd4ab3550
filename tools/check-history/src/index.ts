export { checkHistory, type Finding } from './check.js';
export type { HistoryLine } from './history.js';
