import type { LabEvent } from '../work/events.js';
import type { Trial } from './trial.js';
/** The longest wait of a caller that got in. */
export declare function longestWaitMs(events: readonly LabEvent[]): number;
export declare function inSeconds(ms: number): string;
/** What happened, with times, in one line. */
export declare function summaryOf({ events, seen, stock, }: Pick<Trial, 'events' | 'seen' | 'stock'>): string;
//# sourceMappingURL=summary.d.ts.map