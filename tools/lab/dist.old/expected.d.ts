import type { Trial } from './run/trial.js';
/** How a trial differs from the table, in words; undefined if it does not. */
export declare function deviationOf({ stage, accident, findings }: Trial): string | undefined;
/** Whether the table says anything about the pair. A test compares this with what can happen. */
export declare function isExpected(accident: string, stage: number): boolean;
//# sourceMappingURL=expected.d.ts.map