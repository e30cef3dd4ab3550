import type { Trial } from '../run/trial.js';
import { type RunFacts } from './report-html.js';
/** Writes `lab-report.html`, pictures for documents, and what was recorded. @returns the files' paths */
export declare function writeReport(folder: string, trials: readonly Trial[], facts: RunFacts): string[];
//# sourceMappingURL=write-report.d.ts.map