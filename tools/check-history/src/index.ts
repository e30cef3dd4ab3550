export { type Absence, tooManyAway } from './absences.js';
export { checkHistory } from './check.js';
export type { Finding } from './finding.js';
export type { HistoryLine, OfCall } from './history.js';
