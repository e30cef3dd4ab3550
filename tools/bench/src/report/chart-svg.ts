import { BASE_COLOURS, escapeMarkup, roundForSvg, svgPicture } from 'kit';
import type { Spread } from '../measure/statistics.js';
import { inDigits } from './format.js';

export interface Point {
  readonly x: number;
  readonly y: Spread;
}

export interface Series {
  readonly name: string;
  readonly points: readonly Point[];
  readonly isOurs: boolean;
}

export interface Chart {
  readonly title: string;
  readonly xTitle: string;
  readonly yTitle: string;
  readonly series: readonly Series[];
}

const WIDTH = 1_000;
const HEIGHT = 480;
const LEFT = 84;
const RIGHT = 280;
const TOP = 56;
const BOTTOM = 56;
const LABEL_HEIGHT = 19;

const OURS = [
  { light: '#2f6fde', dark: '#5b95ff' },
  { light: '#0d8050', dark: '#3ddc97' },
];
const PEERS = [
  { light: '#b4540a', dark: '#f0a35e' },
  { light: '#a3287f', dark: '#ee85cf' },
  { light: '#6b5bd2', dark: '#b0a4ff' },
  { light: '#8a6d00', dark: '#dcc04a' },
];

/** Lines over a logarithmic axis, with the middle half of the rounds as a bar at each point. */
export function chartSvg({ title, xTitle, yTitle, series }: Chart): string {
  const xs = [...new Set(series.flatMap(({ points }) => points.map(({ x }) => x)))].sort(
    (a, b) => a - b,
  );
  const ys = series.flatMap(({ points }) => points.flatMap(({ y }) => [y.low, y.high, y.median]));
  const [from, to] = decades(ys);
  const x = (value: number): number =>
    roundForSvg(LEFT + ((xs.indexOf(value) + 0.5) / xs.length) * (WIDTH - LEFT - RIGHT));
  const y = (value: number): number =>
    roundForSvg(
      HEIGHT - BOTTOM - ((Math.log10(value) - from) / (to - from)) * (HEIGHT - TOP - BOTTOM),
    );
  const styled = withColours(series);
  return (
    svgPicture({
      width: WIDTH,
      height: HEIGHT,
      label: spoken(title, series),
      attributes: ' class="chart"',
      own: {
        light: { ...BASE_COLOURS.light, ...coloursOf(styled, 'light') },
        dark: { ...BASE_COLOURS.dark, ...coloursOf(styled, 'dark') },
        style: styleOf(styled),
      },
      parts: [
        `<text class="heading" x="16" y="28">${escapeMarkup(title)}</text>`,
        yAxis(from, to, y, yTitle),
        xAxis(xs, x, xTitle),
        ...styled.map(({ name, points }) => line(name, points, x, y)),
        labels(styled, y),
      ],
    }) + '\n'
  );
}

interface Styled extends Series {
  readonly colours: { readonly light: string; readonly dark: string };
  readonly name: string;
}

function withColours(series: readonly Series[]): Styled[] {
  const free = { ours: [...OURS], peers: [...PEERS] };
  return series.map((one) => {
    const colours = (one.isOurs ? free.ours : free.peers).shift() ?? {
      light: '#888',
      dark: '#888',
    };
    return { ...one, colours };
  });
}

function coloursOf(series: readonly Styled[], scheme: 'light' | 'dark'): Record<string, string> {
  return Object.fromEntries(series.map(({ name, colours }) => [classOf(name), colours[scheme]]));
}

function styleOf(series: readonly Styled[]): string {
  return (
    '.chart text{font-size:13px;fill:var(--soft)}' +
    '.chart .heading{font-size:16px;font-weight:600;fill:var(--ink)}' +
    '.chart .label{font-weight:600}.chart .grid{stroke:var(--line);stroke-width:1}' +
    '.chart .line{fill:none;stroke-width:2;stroke-linejoin:round}.chart .ours{stroke-width:3}' +
    '.chart .spread{stroke-width:1.5}.chart .leader{fill:none;stroke-width:1;opacity:.55}' +
    series
      .map(
        ({ name, isOurs }) =>
          `.chart .${classOf(name)}{stroke:var(--${classOf(name)})}` +
          `.chart circle.${classOf(name)}{fill:var(--${classOf(name)})}` +
          `.chart text.${classOf(name)}{stroke:none;fill:var(--${classOf(name)})}` +
          (isOurs ? `.chart path.line.${classOf(name)}{stroke-width:3}` : ''),
      )
      .join('')
  );
}

function yAxis(from: number, to: number, y: (value: number) => number, title: string): string {
  const ticks = Array.from({ length: to - from + 1 }, (_, n) => 10 ** (from + n));
  const middle = (TOP + HEIGHT - BOTTOM) / 2;
  return (
    ticks
      .map(
        (value) =>
          `<line class="grid" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${y(value)}" y2="${y(value)}"/>` +
          `<text x="${LEFT - 8}" y="${y(value) + 4}" text-anchor="end">${tick(value)}</text>`,
      )
      .join('') +
    `<text x="20" y="${middle}" text-anchor="middle" transform="rotate(-90 20 ${middle})">${escapeMarkup(title)}</text>`
  );
}

function xAxis(xs: readonly number[], x: (value: number) => number, title: string): string {
  return (
    xs
      .map(
        (value) =>
          `<text x="${x(value)}" y="${HEIGHT - BOTTOM + 20}" text-anchor="middle">${value}</text>`,
      )
      .join('') +
    `<text x="${(LEFT + WIDTH - RIGHT) / 2}" y="${HEIGHT - 12}" text-anchor="middle">${escapeMarkup(title)}</text>`
  );
}

function line(
  name: string,
  points: readonly Point[],
  x: (value: number) => number,
  y: (value: number) => number,
): string {
  const path = points.map((point, n) => `${n === 0 ? 'M' : 'L'}${x(point.x)} ${y(point.y.median)}`);
  return (
    `<path class="line ${classOf(name)}" d="${path.join('')}"/>` +
    points
      .map(
        (point) =>
          `<path class="spread ${classOf(name)}" d="M${x(point.x)} ${y(point.y.low)}V${y(point.y.high)}"/>` +
          `<circle class="${classOf(name)}" cx="${x(point.x)}" cy="${y(point.y.median)}" r="4">` +
          `<title>${escapeMarkup(`${name}: ${inDigits(point.y.median)}`)}</title></circle>`,
      )
      .join('')
  );
}

/** Names at the ends of the lines, moved apart where lines end close to each other. */
function labels(series: readonly Styled[], y: (value: number) => number): string {
  const ends = series
    .flatMap(({ name, points }) => {
      const last = points.at(-1);
      return last === undefined ? [] : [{ name, end: y(last.y.median), at: y(last.y.median) }];
    })
    .sort((a, b) => a.end - b.end);
  for (const [n, label] of ends.entries()) {
    const above = ends[n - 1];
    if (above !== undefined) label.at = Math.max(label.at, above.at + LABEL_HEIGHT);
  }
  const overflow = Math.max(0, (ends.at(-1)?.at ?? 0) - (HEIGHT - BOTTOM));
  for (const label of ends) label.at -= overflow;
  for (const [n, label] of [...ends.entries()].reverse()) {
    const below = ends[n + 1];
    if (below !== undefined) label.at = Math.min(label.at, below.at - LABEL_HEIGHT);
  }
  const lineEnd = WIDTH - RIGHT - 66;
  return ends
    .map(
      ({ name, end, at }) =>
        `<path class="leader ${classOf(name)}" d="M${lineEnd} ${end}L${WIDTH - RIGHT + 4} ${roundForSvg(at)}"/>` +
        `<text class="label ${classOf(name)}" x="${WIDTH - RIGHT + 10}" y="${roundForSvg(at + 4)}">${escapeMarkup(name)}</text>`,
    )
    .join('');
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

function tick(value: number): string {
  return value >= 1 ? value.toLocaleString('en') : String(Number(value.toPrecision(1)));
}

function classOf(name: string): string {
  return `s-${name
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-|-$/g, '')}`;
}
