/** What can be wrong, with the worst first. If nothing is wrong, the lock has held. */
export const FINDINGS = [
    'stock wrong',
    'two holders',
    'locked for ever',
    'call failed',
    'nobody was told',
];
/**
 * The holds, according to what the callers noted. A hold ends when the holder has finished, was killed or was told of
 * its loss, or when its lock would have reported the loss if asked, because a process that stands still cannot be told
 * anything.
 */
export function holdsIn(events) {
    const holds = [];
    const end = events.reduce((last, { at }) => Math.max(last, at), 0);
    const open = new Map();
    const close = (lane, at, told, killed = false) => {
        const hold = open.get(lane);
        if (hold === undefined)
            return;
        open.delete(lane);
        const expired = hold.paused && hold.validUntil < at;
        const until = expired ? Math.max(hold.from, hold.validUntil) : at;
        holds.push({ lane, from: hold.from, until, told: told || expired, killed });
    };
    for (const { at, lane, kind, text } of events) {
        const hold = open.get(lane);
        switch (kind) {
            case 'hold':
                close(lane, at, false);
                open.set(lane, { from: at, validUntil: Infinity, paused: false });
                break;
            case 'valid until':
                if (hold !== undefined)
                    hold.validUntil = Number(text);
                break;
            case 'paused':
                if (hold !== undefined)
                    hold.paused = true;
                break;
            case 'release':
            case 'sold':
            case 'sold out':
            case 'failed':
            case 'retry':
                close(lane, at, false);
                break;
            case 'told':
            case 'refused':
                close(lane, at, true);
                break;
            case 'killed':
                close(lane, at, false, true);
                break;
            case 'wait':
            case 'begin':
            case 'read':
            case 'write':
            case 'commit':
            case 'committed':
            case 'rolled back':
            case 'resumed':
            case 'command':
            case 'mark':
        }
    }
    for (const lane of [...open.keys()])
        close(lane, end, false);
    return holds.sort((a, b) => a.from - b.from);
}
export function overlapsOf(holds) {
    return holds.flatMap((first, n) => holds
        .slice(n + 1)
        .filter(({ from }) => from < first.until)
        .map((second) => ({
        first,
        second,
        from: second.from,
        until: Math.min(first.until, second.until),
    })));
}
/** How long two or more callers were inside at the same time. */
export function overlapMs(overlaps) {
    let total = 0;
    let reached = -Infinity;
    for (const { from, until } of [...overlaps].sort((a, b) => a.from - b.from)) {
        total += Math.max(0, until - Math.max(from, reached));
        reached = Math.max(reached, until);
    }
    return total;
}
export function findingsOf(events, stock, seen) {
    const overlaps = overlapsOf(holdsIn(events));
    const found = new Set(seen.map(({ finding }) => finding));
    if (stock.start - stock.left !== stock.sold || stock.left < 0)
        found.add('stock wrong');
    if (overlaps.length > 0)
        found.add('two holders');
    if (overlaps.some(({ first }) => !first.told && !first.killed))
        found.add('nobody was told');
    // A caller that was told of a loss fails for a good reason, whatever the error of its database says.
    const told = new Set(events.filter(({ kind }) => kind === 'told').map(({ lane }) => lane));
    if (events.some(({ kind, lane }) => kind === 'failed' && !told.has(lane))) {
        found.add('call failed');
    }
    return FINDINGS.filter((finding) => found.has(finding));
}
//# sourceMappingURL=findings.js.map