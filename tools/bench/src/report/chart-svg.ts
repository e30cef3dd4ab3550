import { BASE_COLOURS, escapeMarkup, roundForSvg, svgPicture } from 'kit';
import type { Spread } from '../measure/statistics.js';
import { inDigits } from './format.js';

export interface Series {
  readonly name: string;
  readonly points: readonly { readonly x: number; readonly y: Spread }[];
  readonly isOurs: boolean;
}

export interface Chart {
  readonly title: string;
  readonly xTitle: string;
  readonly yTitle: string;
  readonly series: readonly Series[];
}

/** Where a picture has its axes, in pixels: its text is as large as that of a page. */
interface Frame {
  readonly width: number;
  readonly height: number;
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
  /** Whether the names of the lines are listed below the axes, because beside them there is no room. */
  readonly isListed: boolean;
}

const LABEL_HEIGHT = 19;

const WIDE: Frame = {
  width: 1_000,
  height: 480,
  left: 84,
  right: 280,
  top: 56,
  bottom: 56,
  isListed: false,
};

/** For a phone. */
function narrowFor(lines: number): Frame {
  const bottom = 64 + lines * LABEL_HEIGHT;
  return { width: 380, height: 300 + bottom, left: 84, right: 14, top: 56, bottom, isListed: true };
}

/** By their number among the lines of ours, or among the others. */
const COLOURS = {
  light: {
    'ours-0': '#2f6fde',
    'ours-1': '#0d8050',
    'peer-0': '#b4540a',
    'peer-1': '#a3287f',
    'peer-2': '#6b5bd2',
    'peer-3': '#8a6d00',
  },
  dark: {
    'ours-0': '#5b95ff',
    'ours-1': '#3ddc97',
    'peer-0': '#f0a35e',
    'peer-1': '#ee85cf',
    'peer-2': '#b0a4ff',
    'peer-3': '#dcc04a',
  },
} as const;

const STYLE =
  'text{font-size:13px;fill:var(--soft)}.heading{font-size:16px;font-weight:600;fill:var(--ink)}' +
  '.grid{stroke:var(--line)}.series path{fill:none;stroke:currentColor;stroke-width:1.5}' +
  '.series .line{stroke-width:2;stroke-linejoin:round}.series .ours{stroke-width:3}' +
  '.series .leader{stroke-width:1;opacity:.55}.series circle{fill:currentColor}' +
  '.series text{fill:currentColor;font-weight:600}';

/**
 * Lines over a logarithmic axis, with the middle half of the rounds as a bar at each point.
 *
 * @param isNarrow whether it is for a phone
 */
export function chartSvg({ title, xTitle, yTitle, series }: Chart, isNarrow = false): string {
  const frame = isNarrow ? narrowFor(series.length) : WIDE;
  const { width, height, left, right, top, bottom } = frame;
  const xs = [...new Set(series.flatMap(({ points }) => points.map(({ x }) => x)))].sort(
    (a, b) => a - b,
  );
  const ys = series.flatMap(({ points }) => points.flatMap(({ y }) => [y.low, y.high, y.median]));
  const [from, to] = decades(ys);
  const x = (value: number): number =>
    roundForSvg(left + ((xs.indexOf(value) + 0.5) / xs.length) * (width - left - right));
  const y = (value: number): number =>
    roundForSvg(
      height - bottom - ((Math.log10(value) - from) / (to - from)) * (height - top - bottom),
    );
  const own = {
    light: { ...BASE_COLOURS.light, ...COLOURS.light },
    dark: { ...BASE_COLOURS.dark, ...COLOURS.dark },
    style: STYLE,
  };
  const labelAt = frame.isListed ? listedIn(series, frame) : placesOfLabels(series, y, frame);
  const counts = { ours: 0, peer: 0 };
  const parts = [
    text({ x: 16, y: 28, class: 'heading' }, title),
    ...Array.from({ length: to - from + 1 }, (_, n) => tick(10 ** (from + n), y, frame)),
    rotated(20, (top + height - bottom) / 2, yTitle),
    ...xs.map((value) =>
      text({ x: x(value), y: height - bottom + 20, 'text-anchor': 'middle' }, value),
    ),
    text(
      { x: (left + width - right) / 2, y: height - bottom + 44, 'text-anchor': 'middle' },
      xTitle,
    ),
    ...series.map((one) => {
      const kind = one.isOurs ? 'ours' : 'peer';
      const colour = `${kind}-${counts[kind]++}`;
      return `<g class="series" style="color:var(--${colour})">${line(one, x, y)}${labelAt(one)}</g>`;
    }),
  ];
  const label = spoken(title, series);
  return `${svgPicture({ width, height, label, own, parts })}\n`;
}

function text(attributes: Readonly<Record<string, string | number>>, content: string | number) {
  const list = Object.entries(attributes).map(([name, value]) => ` ${name}="${value}"`);
  return `<text${list.join('')}>${escapeMarkup(content)}</text>`;
}

function rotated(x: number, y: number, content: string): string {
  return text({ x, y, 'text-anchor': 'middle', transform: `rotate(-90 ${x} ${y})` }, content);
}

function tick(value: number, y: (value: number) => number, { width, left, right }: Frame): string {
  const words = value >= 1 ? value.toLocaleString('en') : String(Number(value.toPrecision(1)));
  return (
    `<path class="grid" d="M${left} ${y(value)}H${width - right}"/>` +
    text({ x: left - 8, y: y(value) + 4, 'text-anchor': 'end' }, words)
  );
}

function line(
  { name, points, isOurs }: Series,
  x: (value: number) => number,
  y: (value: number) => number,
): string {
  const path = points.map((point) => `${x(point.x)} ${y(point.y.median)}`).join('L');
  const marks = points.map(
    (point) =>
      `<path d="M${x(point.x)} ${y(point.y.low)}V${y(point.y.high)}"/>` +
      `<circle cx="${x(point.x)}" cy="${y(point.y.median)}" r="4">` +
      `<title>${escapeMarkup(`${name}: ${inDigits(point.y.median)}`)}</title></circle>`,
  );
  return `<path class="line${isOurs ? ' ours' : ''}" d="M${path}"/>${marks.join('')}`;
}

/** Names in a list below the axes, each with a piece of its line. */
function listedIn(series: readonly Series[], { height, bottom }: Frame): (one: Series) => string {
  return (wanted) => {
    const y = height - bottom + 66 + series.indexOf(wanted) * LABEL_HEIGHT;
    return `<path class="line" d="M16 ${y}H40"/>${text({ x: 50, y: y + 4 }, wanted.name)}`;
  };
}

/** Names at the ends of the lines, moved apart where lines end close to each other. */
function placesOfLabels(
  series: readonly Series[],
  y: (value: number) => number,
  { width, height, right, bottom }: Frame,
): (one: Series) => string {
  const ends = series
    .map((one) => ({ one, end: y(one.points.at(-1)?.y.median ?? 1) }))
    .sort((a, b) => a.end - b.end)
    .map((label) => ({ ...label, at: label.end }));
  for (const [n, label] of ends.entries()) {
    label.at = Math.max(label.at, (ends[n - 1]?.at ?? -Infinity) + LABEL_HEIGHT);
  }
  let lowest = height - bottom;
  for (const label of ends.toReversed()) {
    label.at = Math.min(label.at, lowest);
    lowest = label.at - LABEL_HEIGHT;
  }
  return (wanted) => {
    const { end, at } = ends.find(({ one }) => one === wanted) ?? { end: 0, at: 0 };
    const leader = `M${width - right - 66} ${end}L${width - right + 4} ${roundForSvg(at)}`;
    return (
      `<path class="leader" d="${leader}"/>` +
      text({ x: width - right + 10, y: roundForSvg(at + 4) }, wanted.name)
    );
  };
}

/** The powers of ten around all values. */
function decades(values: readonly number[]): [from: number, to: number] {
  const logs = values.filter((value) => value > 0).map(Math.log10);
  const from = Math.floor(Math.min(...logs));
  return [from, Math.max(Math.ceil(Math.max(...logs)), from + 1)];
}

/** The whole picture in words, for readers who cannot see it. */
function spoken(title: string, series: readonly Series[]): string {
  const lines = series.map(
    ({ name, points }) =>
      `${name}: ${points.map(({ x, y }) => `${x}: ${inDigits(y.median)}`).join(', ')}`,
  );
  return `${title}. ${lines.join('. ')}`;
}
