import { BASE_COLOURS, escapeMarkup, roundForSvg, svgPicture } from 'kit';
import { milliseconds } from './markup.js';
const WIDTH = 1000;
const LEFT = 48;
const RIGHT = 12;
const AXIS = 24;
const NUMBERS = 22;
/** One lane for each caller: waiting is light, holding is solid, a transaction is outlined, and an overlap is red. */
export function timelineSvg(timeline, options) {
    const isCrowded = timeline.lanes.length > 6;
    const laneHeight = isCrowded ? 15 : 34;
    const headHeight = options.heading === undefined ? 0 : 26;
    const top = headHeight + AXIS + (options.bare === true ? 0 : NUMBERS);
    const lanesEnd = top + timeline.lanes.length * laneHeight + gaps(timeline.lanes) * 8;
    const keyLane = timeline.keys.length > 0 && !isCrowded;
    const height = lanesEnd + (keyLane ? 24 : 0) + 8;
    const x = (at) => roundForSvg(LEFT + (clamp(at, 0, timeline.ms) / timeline.ms) * (WIDTH - LEFT - RIGHT));
    const y = (lane) => {
        const n = timeline.lanes.indexOf(lane);
        return top + n * laneHeight + gaps(timeline.lanes.slice(0, n + 1)) * 8;
    };
    const bar = (span, name, inset, tip) => {
        const left = x(span.from);
        const width = Math.max(1.5, roundForSvg(x(span.until) - left));
        return (`<rect class="${name}" x="${left}" y="${y(span.lane) + inset}" width="${width}" ` +
            `height="${laneHeight - 2 * inset}" rx="${isCrowded ? 1 : 2}"${tipOf(tip)}/>`);
    };
    const between = (text, { lane, from, until }) => `${lane} ${text}: ${milliseconds(from)} to ${milliseconds(until)} (${milliseconds(until - from)})`;
    const big = isCrowded ? 0 : 1;
    const parts = [
        ...axis(timeline.ms, x, top, lanesEnd, headHeight + 14),
        ...bands(timeline, x, top, lanesEnd),
        ...timeline.lanes.map((lane) => laneLabel(lane, y(lane) + laneHeight / 2, isCrowded)),
        ...timeline.waits.map((span) => bar(span, 'wait', 4 + 8 * big, between('waits', span))),
        ...timeline.holds.map((span) => bar(span, 'hold', 2 + 5 * big, between('holds the lock', span))),
        ...timeline.overlaps.flatMap(({ first, second, from, until }) => [first, second].map(({ lane }) => bar({ lane, from, until }, 'both', 2 + 5 * big, between('is not alone', { lane, from, until })))),
        ...timeline.pauses.map((span) => bar(span, 'pause', 2 + 5 * big, between('stands still', span))),
        ...timeline.transactions.map((span) => bar(span, `tx${span.end === 'committed' ? '' : ' undone'}${isCrowded ? ' fine' : ''}`, 1 + 2 * big, between(`has a transaction open, ${span.end}`, span))),
        ...timeline.transactions.map((span) => endMark(span, x(span.until), y(span.lane), laneHeight, isCrowded)),
        ...(isCrowded ? [] : commandTicks(timeline, x, y, laneHeight)),
        ...(keyLane ? keyBar(timeline, x, lanesEnd) : []),
        ...(options.bare === true ? [] : moments(timeline, x, y, laneHeight, top, lanesEnd)),
    ];
    const head = options.heading === undefined
        ? ''
        : `<text class="heading" x="12" y="20">${escapeMarkup(options.heading)}</text>`;
    return svgPicture({
        width: WIDTH,
        height,
        label: options.label,
        attributes: ' class="timeline" tabindex="0"',
        ...(options.standalone === true && {
            own: { light: LIGHT, dark: DARK, style: TIMELINE_STYLE.replaceAll('\n', '') },
        }),
        parts: [head, ...parts],
    });
}
/** There is a little more room between two processes. */
function gaps(lanes) {
    const processes = lanes.map((lane) => /^(\d+)\./.exec(lane)?.[1] ?? '');
    return processes.filter((name, n) => n > 0 && name !== processes[n - 1]).length;
}
function axis(ms, x, top, bottom, labelsAt) {
    const step = [10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000].find((size) => ms / size <= 8) ?? 10_000;
    const count = Math.floor(ms / step) + 1;
    return Array.from({ length: count }, (_, n) => {
        const left = x(n * step);
        const label = n === 0 ? '0' : milliseconds(n * step).replace(/\.?0+ s$/, ' s');
        return (`<line class="grid" x1="${left}" x2="${left}" y1="${top - 4}" y2="${bottom}"/>` +
            `<text class="tick" x="${left}" y="${labelsAt}" text-anchor="${n === 0 ? 'start' : 'middle'}">${label}</text>`);
    });
}
function bands({ overlaps }, x, top, bottom) {
    const merged = [];
    for (const { from, until } of [...overlaps].sort((a, b) => a.from - b.from)) {
        const last = merged.at(-1);
        if (last !== undefined && from <= last.until)
            last.until = Math.max(last.until, until);
        else
            merged.push({ from, until });
    }
    return merged.map(({ from, until }) => {
        const width = Math.max(1.5, roundForSvg(x(until) - x(from)));
        return `<rect class="band" x="${x(from)}" y="${top - 2}" width="${width}" height="${bottom - top + 2}"/>`;
    });
}
function laneLabel(lane, middle, isCrowded) {
    const size = isCrowded ? 'lane small' : 'lane';
    return `<text class="${size}" x="${LEFT - 8}" y="${roundForSvg(middle + 4)}" text-anchor="end">${escapeMarkup(lane)}</text>`;
}
function endMark(span, left, top, height, isCrowded) {
    if (isCrowded || span.end === 'cut')
        return '';
    const middle = top + height / 2;
    const tip = tipOf(`${span.lane} ${span.end === 'committed' ? 'has committed' : 'has rolled back'}: ${milliseconds(span.until)}`);
    return span.end === 'committed'
        ? `<path class="commit" d="M${left} ${middle - 7}l7 7-7 7-7-7z"${tip}/>`
        : `<path class="rollback" d="M${left - 5} ${middle - 5}l10 10m0-10l-10 10"${tip}/>`;
}
function commandTicks({ commands }, x, y, height) {
    return commands.map(({ lane, at, text }) => {
        const bottom = y(lane) + height;
        return `<path class="command" d="M${x(at)} ${bottom - 6}v6"${tipOf(`${lane} ${text}: ${milliseconds(at)}`)}/>`;
    });
}
function keyBar({ keys, ms }, x, top) {
    return [
        `<text class="lane small" x="${LEFT - 8}" y="${top + 19}" text-anchor="end">key</text>`,
        `<line class="grid" x1="${x(0)}" x2="${x(ms)}" y1="${top + 15}" y2="${top + 15}"/>`,
        ...keys.map(({ from, until }) => {
            const width = Math.max(1.5, roundForSvg(x(until) - x(from)));
            const tip = `the key is in Redis: ${milliseconds(from)} to ${milliseconds(until)}`;
            return `<rect class="key" x="${x(from)}" y="${top + 12}" width="${width}" height="6" rx="3"${tipOf(tip)}/>`;
        }),
    ];
}
function moments(timeline, x, y, height, top, bottom) {
    let before = -Infinity;
    return timeline.moments.map((moment, n) => {
        const at = x(moment.at);
        const badge = Math.min(WIDTH - 10, Math.max(at, before + 18));
        before = badge;
        const hasLane = timeline.lanes.includes(moment.lane);
        const end = hasLane ? y(moment.lane) + height : bottom;
        return (`<g class="moment ${moment.kind}"${tipOf(`${moment.text}: ${milliseconds(moment.at)}`)}>` +
            `<path d="M${badge} ${top - NUMBERS + 8}L${at} ${top - 4}V${end}"/>` +
            `<circle cx="${badge}" cy="${top - NUMBERS + 6}" r="8"/>` +
            `<text x="${badge}" y="${top - NUMBERS + 10}" text-anchor="middle">${n + 1}</text></g>`);
    });
}
function tipOf(text) {
    return ` data-tip="${escapeMarkup(text)}"`;
}
function clamp(value, low, high) {
    return Math.min(high, Math.max(low, value));
}
/** The same names as in the page, for both colour schemes. */
export const LIGHT = {
    ...BASE_COLOURS.light,
    wait: '#c3cedd',
    hold: '#2f6fde',
    both: '#d92d3a',
    band: 'rgba(217, 45, 58, 0.13)',
    tx: '#16233b',
    key: '#8795aa',
    commit: '#0d8050',
    mark: '#1c2430',
    onMark: '#ffffff',
};
export const DARK = {
    ...BASE_COLOURS.dark,
    wait: '#46536a',
    hold: '#5b95ff',
    both: '#ff5c66',
    band: 'rgba(255, 92, 102, 0.2)',
    tx: '#e8ecf3',
    key: '#75849b',
    commit: '#3ddc97',
    mark: '#e8ecf3',
    onMark: '#12161d',
};
export const TIMELINE_STYLE = `
.timeline text{font-family:ui-sans-serif,system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;font-size:12px;fill:var(--soft)}
.timeline .lane{font-size:14px;font-weight:600;fill:var(--ink)}
.timeline .lane.small{font-size:10.5px;font-weight:500;fill:var(--soft)}
.timeline .heading{font-size:14.5px;font-weight:600;fill:var(--ink)}
.timeline .grid{stroke:var(--line);stroke-width:1}
.timeline .wait{fill:var(--wait)}
.timeline .hold{fill:var(--hold)}
.timeline .both{fill:var(--both)}
.timeline .band{fill:var(--band)}
.timeline .pause{fill:var(--page);fill-opacity:.62;stroke:var(--ink);stroke-width:1;stroke-dasharray:3 3}
.timeline .tx{fill:none;pointer-events:stroke;stroke:var(--tx);stroke-width:1.25}
.timeline .fine{stroke-width:.7}
.timeline .tx.undone{stroke-dasharray:4 3}
.timeline .commit{fill:var(--commit);stroke:var(--page);stroke-width:1.5}
.timeline .rollback{stroke:var(--both);stroke-width:2.5;fill:none;stroke-linecap:round}
.timeline .command{stroke:var(--soft);stroke-width:1.5}
.timeline .key{fill:var(--key)}
.timeline .moment path{stroke:var(--mark);stroke-width:1.25;fill:none;stroke-dasharray:2 3}
.timeline .moment circle{fill:var(--mark)}
.timeline .moment text{fill:var(--onMark);font-weight:700;font-size:10.5px}
.timeline .moment.killed path,.timeline .moment.failed path{stroke:var(--both);stroke-dasharray:none}
.timeline .moment.killed circle,.timeline .moment.failed circle{fill:var(--both)}
.timeline .moment.told circle{fill:var(--commit)}
`.trim();
//# sourceMappingURL=timeline-svg.js.map