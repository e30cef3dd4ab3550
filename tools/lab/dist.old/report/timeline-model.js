import { holdsIn, overlapsOf } from '../run/findings.js';
export function timelineOf(trial) {
    const start = Math.min(...trial.events.map(({ at }) => at));
    const shift = (event) => ({
        ...event,
        at: event.at - start,
    });
    const events = trial.events.map((event) => event.kind === 'valid until'
        ? shift({ ...event, text: String(Number(event.text) - start) })
        : shift(event));
    const ms = Math.max(1, ...events.map(({ at }) => at));
    const holds = holdsIn(events);
    const keyEvents = trial.keyEvents.map(shift).filter(({ at }) => at >= 0 && at <= ms + 5);
    return {
        lanes: [...trial.lanes].sort((a, b) => a.localeCompare(b, 'en', { numeric: true })),
        ms,
        waits: spans(events, ms, ['wait'], ['hold', ...ENDS]),
        holds,
        overlaps: overlapsOf(holds),
        transactions: transactionsIn(events, ms),
        pauses: spans(events, ms, ['paused'], ['resumed']),
        commands: newCommands(events),
        moments: momentsOf(events, keyEvents, trial),
        keys: keysIn(keyEvents, ms),
        results: new Map(trial.lanes.map((lane) => [lane, resultOf(events, lane)])),
    };
}
const ENDS = ['sold', 'sold out', 'failed', 'refused', 'killed', 'retry'];
function spans(events, end, begins, ends) {
    const open = new Map();
    const found = [];
    for (const { at, lane, kind } of events) {
        const from = open.get(lane);
        if (from !== undefined && ends.includes(kind)) {
            found.push({ lane, from, until: at });
            open.delete(lane);
        }
        if (begins.includes(kind) && !open.has(lane))
            open.set(lane, at);
    }
    for (const [lane, from] of open)
        found.push({ lane, from, until: end });
    return found;
}
function transactionsIn(events, end) {
    const ends = ['committed', 'rolled back', 'killed', 'failed', 'refused'];
    return spans(events, end, ['begin'], ends).map((span) => {
        const last = events.find(({ at, lane, kind }) => at === span.until && lane === span.lane && ends.includes(kind));
        const kind = last?.kind;
        return { ...span, end: kind === 'committed' || kind === 'rolled back' ? kind : 'cut' };
    });
}
/** A waiter that spins reports the same again and again, so only what is new is shown. */
function newCommands(events) {
    const said = new Map();
    return events.flatMap(({ at, lane, kind, text = '' }) => {
        if (kind === 'hold' || kind === 'wait')
            said.set(lane, []);
        if (kind !== 'command')
            return [];
        const before = said.get(lane) ?? [];
        if (before.includes(text))
            return [];
        said.set(lane, [...before, text]);
        return { lane, at, text };
    });
}
const TOLD = {
    mark: 'done',
    killed: 'killed',
    paused: 'paused',
    resumed: 'resumed',
    told: 'told',
    refused: 'told',
    failed: 'failed',
};
const MOST_MOMENTS = 9;
function momentsOf(events, keyEvents, { accident }) {
    const moments = events.flatMap(({ at, lane, kind, text = '' }) => {
        const told = TOLD[kind];
        return told === undefined ? [] : [{ at, lane, kind: told, text: inWords(kind, lane, text) }];
    });
    const expiries = accident === 'sale'
        ? []
        : keyEvents
            .filter(({ kind }) => kind === 'expired')
            .map(({ at }) => ({
            at,
            lane: '',
            kind: 'expired',
            text: 'The lock expires in Redis',
        }));
    return [...moments, ...expiries].sort((a, b) => a.at - b.at).slice(0, MOST_MOMENTS);
}
const WORDS = {
    told: ' is told that its lock is lost',
    refused: ' is refused',
    failed: ' fails',
};
function inWords(kind, lane, text) {
    if (kind === 'mark')
        return text.charAt(0).toUpperCase() + text.slice(1);
    return `${lane}${WORDS[kind] ?? ''}: ${text}`;
}
function keysIn(keyEvents, end) {
    const found = [];
    let from;
    for (const { at, kind } of keyEvents) {
        if (kind === 'set')
            from ??= at;
        else if (from !== undefined) {
            found.push({ from, until: at });
            from = undefined;
        }
    }
    if (from !== undefined)
        found.push({ from, until: end });
    return found;
}
function resultOf(events, lane) {
    const ends = events.filter((event) => event.lane === lane && ENDS.includes(event.kind));
    if (ends.length === 0)
        return 'still waiting at the end';
    const counts = new Map();
    for (const { kind } of ends)
        counts.set(kind, (counts.get(kind) ?? 0) + 1);
    return [...counts]
        .map(([kind, count]) => (count === 1 ? kind : `${kind} ${count} times`))
        .join(', ');
}
//# sourceMappingURL=timeline-model.js.map