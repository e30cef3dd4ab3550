import type { LabOptions } from './options.js';
/** @returns whether all results are as the table of expected results says */
export declare function runLab(options: LabOptions): Promise<boolean>;
//# sourceMappingURL=run-lab.d.ts.map