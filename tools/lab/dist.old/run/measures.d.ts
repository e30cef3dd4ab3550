import type { Trial } from './trial.js';
/** What was measured in a sale. */
export interface Measures {
    readonly sold: number;
    readonly truth: number;
    /** How many pieces were sold beyond those that existed. */
    readonly oversold: number;
    /** How many purchases the stock does not account for. */
    readonly lostUpdates: number;
    /** How many pairs of callers were inside at the same time. */
    readonly overlaps: number;
    /** How many attempts were in vain, because the version had changed. */
    readonly retries: number;
    readonly perSecond: number;
    readonly longestWaitMs: number;
    readonly commandsPerPurchase: number;
    readonly bytesPerPurchase: number;
    /** The highest number of connections that waiting callers kept at the same time. */
    readonly connectionsWaiting: number;
}
/** "Per purchase" means for each call, whether it sold something or found nothing left. Both need the lock. */
export declare function measuresOf({ events, stock, traffic }: Trial): Measures;
//# sourceMappingURL=measures.d.ts.map