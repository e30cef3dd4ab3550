import { holdsIn, overlapsOf } from './findings.js';
import { longestWaitMs } from './summary.js';
const PIECES_EACH = 10;
/** "Per purchase" means for each call, whether it sold something or found nothing left. Both need the lock. */
export function measuresOf({ events, stock, traffic }) {
    const ends = events.filter(({ kind }) => ENDS.has(kind));
    const first = events[0]?.at ?? 0;
    const last = ends.at(-1)?.at ?? first;
    const calls = Math.max(1, ends.length);
    return {
        sold: stock.sold,
        truth: stock.start - stock.left,
        oversold: Math.max(0, stock.sold - stock.start),
        lostUpdates: (stock.sold - (stock.start - stock.left)) / PIECES_EACH,
        overlaps: overlapsOf(holdsIn(events)).length,
        retries: events.filter(({ kind }) => kind === 'retry').length,
        perSecond: (calls * 1_000) / Math.max(1, last - first),
        longestWaitMs: longestWaitMs(events),
        commandsPerPurchase: traffic.commands / calls,
        bytesPerPurchase: traffic.bytes / calls,
        connectionsWaiting: mostWaitingInTransaction(events),
    };
}
const ENDS = new Set(['sold', 'sold out', 'failed', 'refused']);
function mostWaitingInTransaction(events) {
    const inTransaction = new Set();
    const waiting = new Set();
    let most = 0;
    for (const { lane, kind } of events) {
        if (kind === 'begin')
            inTransaction.add(lane);
        if (kind === 'committed' || kind === 'rolled back')
            inTransaction.delete(lane);
        if (kind === 'wait')
            waiting.add(lane);
        if (kind === 'hold' || ENDS.has(kind))
            waiting.delete(lane);
        most = Math.max(most, [...waiting].filter((who) => inTransaction.has(who)).length);
    }
    return most;
}
//# sourceMappingURL=measures.js.map