import type { LabEvent } from '../work/events.js';
import type { Seen, Stock } from './trial.js';
/** What can be wrong, with the worst first. If nothing is wrong, the lock has held. */
export declare const FINDINGS: readonly ["stock wrong", "two holders", "locked for ever", "call failed", "nobody was told"];
export type Finding = (typeof FINDINGS)[number];
/** The time during which a caller had the lock, as far as it could know. */
export interface Hold {
    readonly lane: string;
    readonly from: number;
    readonly until: number;
    /** Whether the caller heard of its loss, and did not have to learn it from the damage. */
    readonly told: boolean;
    readonly killed: boolean;
}
export interface Overlap {
    readonly first: Hold;
    readonly second: Hold;
    readonly from: number;
    readonly until: number;
}
/**
 * The holds, according to what the callers noted. A hold ends when the holder has finished, was killed or was told of
 * its loss, or when its lock would have reported the loss if asked, because a process that stands still cannot be told
 * anything.
 */
export declare function holdsIn(events: readonly LabEvent[]): Hold[];
export declare function overlapsOf(holds: readonly Hold[]): Overlap[];
/** How long two or more callers were inside at the same time. */
export declare function overlapMs(overlaps: readonly Overlap[]): number;
export declare function findingsOf(events: readonly LabEvent[], stock: Stock, seen: readonly Seen[]): Finding[];
//# sourceMappingURL=findings.d.ts.map