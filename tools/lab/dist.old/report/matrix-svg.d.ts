import type { Trial } from '../run/trial.js';
/** The matrix as a picture for documents. */
export declare function matrixSvg(trials: readonly Trial[]): string;
/** Colours that are dark enough for the signs on them. */
export declare const CELLS_LIGHT: {
    held: string;
    heldInk: string;
    wrong: string;
    wrongInk: string;
    two: string;
    twoInk: string;
    ever: string;
    everInk: string;
    failed: string;
    failedInk: string;
};
export declare const CELLS_DARK: typeof CELLS_LIGHT;
//# sourceMappingURL=matrix-svg.d.ts.map