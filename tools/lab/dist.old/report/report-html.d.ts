import type { Trial } from '../run/trial.js';
export interface RunFacts {
    readonly seed: number;
    readonly seconds: number;
    readonly machine: string;
    readonly date: string;
    /** Results that differ from the table of expected results. */
    readonly deviations: readonly string[];
}
/** The whole report, in one file that loads nothing from the network. */
export declare function reportHtml(trials: readonly Trial[], facts: RunFacts): string;
/** Three stages in the same accident, side by side: the whole story at a glance. */
export declare const STORY: {
    readonly accident: "long-work";
    readonly stages: readonly [1, 13, 17];
};
//# sourceMappingURL=report-html.d.ts.map