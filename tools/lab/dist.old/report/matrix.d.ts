import type { Accident } from '../accidents/accident.js';
import type { Finding } from '../run/findings.js';
import type { Trial } from '../run/trial.js';
import type { Stage } from '../stages/stage.js';
/** One stage in one accident: what was found, or why it cannot happen; undefined if it was not run. */
export interface Cell {
    readonly accident: Accident;
    readonly trial: Trial | undefined;
    readonly cannot: string | undefined;
}
export interface Row {
    readonly stage: Stage;
    readonly cells: readonly Cell[];
}
/** The stages and accidents that were run, in their order. */
export declare function matrixOf(trials: readonly Trial[]): {
    rows: Row[];
    accidents: Accident[];
};
/** The worst of what was found. */
export declare function verdictOf({ findings }: Trial): Finding | 'held';
/** The matrix for a terminal. */
export declare function matrixText(trials: readonly Trial[]): string;
//# sourceMappingURL=matrix.d.ts.map