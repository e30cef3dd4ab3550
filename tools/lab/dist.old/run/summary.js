import { holdsIn, overlapMs, overlapsOf } from './findings.js';
/** The longest wait of a caller that got in. */
export function longestWaitMs(events) {
    const waiting = new Map();
    let longest = 0;
    for (const { at, lane, kind } of events) {
        if (kind === 'wait')
            waiting.set(lane, at);
        const since = waiting.get(lane);
        if (kind !== 'hold' || since === undefined)
            continue;
        longest = Math.max(longest, at - since);
        waiting.delete(lane);
    }
    return longest;
}
export function inSeconds(ms) {
    return ms < 95 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`;
}
/** What happened, with times, in one line. */
export function summaryOf({ events, seen, stock, }) {
    const parts = [];
    const together = overlapMs(overlapsOf(holdsIn(events)));
    const { start, left, sold } = stock;
    if (start - left !== sold)
        parts.push(`sold ${sold}, but the stock went from ${start} to ${left}`);
    if (together > 0)
        parts.push(`two held it for ${inSeconds(together)}`);
    parts.push(...new Set(seen.map(({ text }) => text)));
    const failed = events.filter(({ kind }) => kind === 'failed');
    if (failed.length > 0)
        parts.push(`${times(failed.length)} failed: ${failed[0]?.text}`);
    for (const { lane, text } of events.filter(({ kind }) => kind === 'told')) {
        parts.push(`${lane} was told: ${text}`);
    }
    for (const { lane, text } of events.filter(({ kind }) => kind === 'refused')) {
        parts.push(`${lane} was refused: ${text}`);
    }
    const waited = longestWaitMs(events);
    if (waited > 0)
        parts.push(`waited ${inSeconds(waited)}`);
    return parts.join('; ');
}
function times(count) {
    return count === 1 ? '1 call' : `${count} calls`;
}
//# sourceMappingURL=summary.js.map