import type { Accident } from '../accidents/accident.js';
import type { Stage } from '../stages/stage.js';
import type { Laboratory } from './laboratory.js';
import type { Trial } from './trial.js';
export interface Pair {
    readonly stage: Stage;
    readonly accident: Accident;
}
export interface LabListener {
    /** A trial is done. */
    done(pair: Pair, trial: Trial): void;
    /** A trial will be repeated alone, for the reason given. */
    repeats(pair: Pair, why: string): void;
}
/** The pairs of chosen stages and chosen accidents that can happen. */
export declare function pairsOf(stages: readonly number[], accidents: readonly string[]): Pair[];
/**
 * Runs the sales one after the other, because they are measured, and then the accidents, which mostly wait. A trial
 * that did not go as expected is repeated once, alone, because leases of 3 s end early on a machine that stands still
 * for that long. If it differs again, the difference counts.
 */
export declare function runTrials(lab: Laboratory, pairs: readonly Pair[], atOnce: number, listener: LabListener): Promise<Trial[]>;
//# sourceMappingURL=lab.d.ts.map