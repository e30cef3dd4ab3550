import type { Accident } from './accident.js';
/** The sale, in which nothing is provoked, and then the accidents in the order of the stages that they break first. */
export declare const ACCIDENTS: readonly Accident[];
//# sourceMappingURL=index.d.ts.map