import { type Hold, type Overlap } from '../run/findings.js';
import type { Trial } from '../run/trial.js';
export interface Span {
    readonly lane: string;
    readonly from: number;
    readonly until: number;
}
/** Something that happened at one moment, and is described under the picture. */
export interface Moment {
    readonly at: number;
    /** Empty if it concerns all lanes. */
    readonly lane: string;
    readonly kind: 'done' | 'killed' | 'paused' | 'resumed' | 'told' | 'failed' | 'expired';
    readonly text: string;
}
/** What a picture of a trial shows. Times are milliseconds from the first thing that a caller did. */
export interface Timeline {
    readonly lanes: readonly string[];
    readonly ms: number;
    readonly waits: readonly Span[];
    readonly holds: readonly Hold[];
    readonly overlaps: readonly Overlap[];
    readonly transactions: readonly (Span & {
        readonly end: 'committed' | 'rolled back' | 'cut';
    })[];
    readonly pauses: readonly Span[];
    readonly commands: readonly {
        readonly lane: string;
        readonly at: number;
        readonly text: string;
    }[];
    readonly moments: readonly Moment[];
    /** When the key was in Redis. */
    readonly keys: readonly Omit<Span, 'lane'>[];
    readonly results: ReadonlyMap<string, string>;
}
export declare function timelineOf(trial: Trial): Timeline;
//# sourceMappingURL=timeline-model.d.ts.map