import type { Span, View } from '../view.js';
import { colourOf } from './make.js';

const SHOWN_MS = 20_000;
const ROW = 26;
const LEFT = 74;
const RIGHT = 10;
const AXIS = 20;
const SVG = 'http://www.w3.org/2000/svg';

/** The last twenty seconds: a row for each process, and one for each key as the server has it. */
export class Picture {
  readonly element: SVGSVGElement;

  constructor() {
    this.element = document.createElementNS(SVG, 'svg');
    this.element.setAttribute('role', 'img');
    this.element.setAttribute('class', 'picture');
    const title = 'The last 20 seconds: who waited, who held, and whose the lease was in Redis';
    this.element.setAttribute('aria-label', title);
  }

  show({ now, processes, server, spans }: View): void {
    const width = Math.max(260, this.element.clientWidth || 600);
    const keys = server.keys.map(({ key }) => key);
    const rows = [...processes.map(({ name }) => name), ...keys];
    const height = rows.length * ROW + AXIS;
    const from = Math.max(0, now - SHOWN_MS);
    const x = (ms: number): number =>
      LEFT + ((Math.max(ms, from) - from) / SHOWN_MS) * (width - LEFT - RIGHT);
    const drawn = [
      ...rows.map((row, i) => rowSvg(row, i, width)),
      ...ticks(from, x, height),
      ...spans.flatMap((span) => spanSvg(span, rows, x)),
      `<line class="now" x1="${at(x(now))}" x2="${at(x(now))}" y1="0" y2="${height - AXIS}"/>`,
    ];
    this.element.setAttribute('viewBox', `0 0 ${width} ${height}`);
    this.element.style.height = `${height}px`;
    this.element.innerHTML = drawn.join('');
  }
}

function rowSvg(row: string, i: number, width: number): string {
  const y = i * ROW;
  const isKey = !/^p\d$/.test(row);
  return `<line class="base" x1="${LEFT}" x2="${width - RIGHT}" y1="${y + ROW - 1}" y2="${y + ROW - 1}"/>
<text class="${isKey ? 'key' : ''}" x="0" y="${y + 17}">${row}</text>`;
}

function ticks(from: number, x: (ms: number) => number, height: number): string[] {
  const first = Math.ceil(from / 5_000);
  return Array.from({ length: 5 }, (_, i) => (first + i) * 5_000)
    .filter((ms) => ms <= from + SHOWN_MS)
    .map(
      (ms) =>
        `<line class="tick" x1="${at(x(ms))}" x2="${at(x(ms))}" y1="0" y2="${height - AXIS}"/>` +
        `<text class="axis" x="${at(x(ms))}" y="${height - 5}" text-anchor="${ms === from + SHOWN_MS ? 'end' : 'middle'}">${ms / 1_000} s</text>`,
    );
}

function spanSvg(span: Span, rows: readonly string[], x: (ms: number) => number): string[] {
  const { row, kind, from, to, of, until = Infinity } = span;
  if (kind === 'away') {
    // Of all keys, because it is the server that is away.
    return rows.flatMap((name, i) => (/^p\d$/.test(name) ? [] : [bar('away', i, x(from), x(to))]));
  }
  const i = rows.indexOf(row);
  if (i < 0) return [];
  if (kind !== 'holding' || until >= to) return [bar(kind, i, x(from), x(to), of)];
  const end = Math.max(from, until);
  return [bar('holding', i, x(from), x(end), of), bar('late', i, x(end), x(to), of)];
}

const HEIGHTS: Readonly<Record<Span['kind'] | 'late', number>> = {
  waiting: 5,
  holding: 15,
  late: 15,
  lease: 15,
  paused: 21,
  dead: 21,
  away: 21,
};

function bar(kind: Span['kind'] | 'late', i: number, from: number, to: number, of = ''): string {
  const height = HEIGHTS[kind];
  const y = i * ROW + (ROW - 1 - height) / 2;
  const width = Math.max(1.5, to - from);
  return `<rect class="${kind}" style="--of:${colourOf(of)}" x="${at(from)}" y="${y}" width="${at(width)}" height="${height}" rx="3"/>`;
}

function at(x: number): string {
  return x.toFixed(1);
}
