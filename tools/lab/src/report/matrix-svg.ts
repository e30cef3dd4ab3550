import { escapeMarkup, roundForSvg, svgPicture } from 'kit';
import { isOurs } from '../stages/stage.js';
import {
  type Cell,
  LEGEND,
  type Mark,
  markOf,
  MARKS,
  type Matrix,
  type Verdict,
  verdictOf,
  VERDICTS,
} from './matrix.js';
import { CLOCK } from './matrix-table.js';
import { DARK, LIGHT, NARROW } from './timeline-svg.js';

const LABEL = 'Stages by accidents: what held and what broke';

const NAME = 262;
const CELL = 36;
const ROW = 25;
const HEAD = 98;

/** The matrix as a picture for documents. */
export function matrixSvg({ rows, accidents }: Matrix): string {
  const [perLine, step] = [4, 126];
  const width = NAME + Math.max(accidents.length * CELL + 62, perLine * step);
  const height = HEAD + rows.length * ROW + 66;
  const heads = accidents.map(
    ({ short }, n) =>
      `<text transform="translate(${NAME + n * CELL + 22} ${HEAD - 8}) rotate(-42)">${escapeMarkup(short)}</text>`,
  );
  const lines = rows.flatMap(({ stage, cells }, r) => {
    const top = HEAD + r * ROW;
    const css = isOurs(stage.id) ? 'name ours' : 'name';
    const name = escapeMarkup(`${stage.id}  ${stage.name}`);
    return [
      `<text class="${css}" x="${NAME - 12}" y="${top + 18}" text-anchor="end">${name}</text>`,
      ...cells.map((cell, n) => cellSvg(cell, NAME + n * CELL, top, CELL, ROW)),
    ];
  });
  const legend = legendOf(NAME, height - 58, perLine, step);
  return svgPicture({
    width,
    height,
    label: LABEL,
    own: OWN,
    parts: [...heads, ...lines, ...legend],
  });
}

/** The same for a phone: the accidents are written upwards, and the name of a stage is above its cells. */
export function narrowMatrixSvg({ rows, accidents }: Matrix): string {
  const margin = 6;
  const share = (NARROW - 2 * margin) / Math.max(1, accidents.length);
  const cell = Math.floor(Math.min(CELL, share));
  const head = 16 + 7.2 * Math.max(0, ...accidents.map(({ short }) => short.length));
  const step = 46;
  const heads = accidents.map(({ short }, n) => {
    const place = `translate(${margin + n * cell + cell / 2 + 4} ${roundForSvg(head - 6)})`;
    return `<text transform="${place} rotate(-90)">${escapeMarkup(short)}</text>`;
  });
  const lines = rows.flatMap(({ stage, cells }, r) => {
    const top = roundForSvg(head + r * step);
    const css = isOurs(stage.id) ? 'name ours' : 'name';
    return [
      `<text class="${css}" x="${margin}" y="${top + 14}">${escapeMarkup(`${stage.id}  ${stage.name}`)}</text>`,
      ...cells.map((each, n) => cellSvg(each, margin + n * cell, top + 19, cell, 24)),
    ];
  });
  const foot = roundForSvg(head + rows.length * step + 10);
  const legend = legendOf(margin, foot, 3, 120);
  return svgPicture({
    width: NARROW,
    height: foot + Math.ceil((LEGEND.length + MARKS.length) / 3) * 26 + 4,
    label: LABEL,
    own: OWN,
    parts: [...heads, ...lines, ...legend],
  });
}

/** One cell in its box; a dot if the accident cannot happen to the stage. */
function cellSvg(
  { trial }: Cell,
  left: number,
  top: number,
  width: number,
  height: number,
): string {
  if (trial === undefined) {
    return `<text class="none" x="${left + width / 2}" y="${top + height / 2 + 4}" text-anchor="middle">·</text>`;
  }
  const inset = width > 30 ? 2 : 1;
  const [w, h] = [width - 2 * inset, height - 4];
  const mark = markOf(trial);
  return (
    square(verdictOf(trial), left + inset, top + 2, w, h, h / 2 + 5) +
    (mark === undefined ? '' : markSvg(mark, left + inset + w - (width > 30 ? 11 : 9), top + 3))
  );
}

/** What the holder heard of its loss, in the corner of a cell. It has the colour of the sign before it. */
function markSvg(mark: Mark, left: number, top: number): string {
  return mark === 'told late'
    ? `<g class="mark" transform="translate(${left} ${top}) scale(.9)">${CLOCK}</g>`
    : `<g class="mark" transform="translate(${left} ${top})">${DOTS}</g>`;
}

/** An ellipsis in a box of 10 by 10. */
const DOTS = '<path d="M1.5 3h1.2m2 0h1.2m2 0h1.2"/>';

/** The signs and marks with their words, in lines. */
function legendOf(left: number, top: number, perLine: number, step: number): string[] {
  const signs = LEGEND.map(
    (verdict) =>
      [(x: number, y: number) => square(verdict, x, y, 22, 18, 14), verdict.short] as const,
  );
  const marks = MARKS.map(
    (mark) =>
      [
        (x: number, y: number) =>
          `<g class="alone"><rect x="${x}" y="${y}" width="22" height="18" rx="4"/>${markSvg(mark, x + 6, y + (mark === 'told late' ? 4 : 6))}</g>`,
        VERDICTS[mark].short,
      ] as const,
  );
  return [...signs, ...marks].map(([draw, text], n) => {
    const x = left + (n % perLine) * step;
    const y = roundForSvg(top + Math.floor(n / perLine) * 26);
    return `${draw(x, y)}<text x="${x + 28}" y="${roundForSvg(y + 14)}">${escapeMarkup(text)}</text>`;
  });
}

/** A verdict's sign on its colour. */
function square(
  { sign, css }: Verdict,
  left: number,
  top: number,
  width: number,
  height: number,
  baseline: number,
): string {
  return (
    `<rect class="${css}" x="${left}" y="${top}" width="${width}" height="${height}" rx="4"/>` +
    `<text class="sign" x="${left + width / 2}" y="${top + baseline}" text-anchor="middle">${escapeMarkup(sign)}</text>`
  );
}

/** Colours that are dark enough for the signs on them. */
export const CELLS_LIGHT = {
  held: '#d8f1e4',
  heldInk: '#0b5a39',
  wrong: '#c9232f',
  wrongInk: '#ffffff',
  two: '#ffd9a8',
  twoInk: '#6b3a00',
  ever: '#5a3ea8',
  everInk: '#ffffff',
  failed: '#ffe9b8',
  failedInk: '#5e4700',
};

export const CELLS_DARK: typeof CELLS_LIGHT = {
  held: '#123d2c',
  heldInk: '#8ff0c1',
  wrong: '#e0424d',
  wrongInk: '#1a0306',
  two: '#5c3a10',
  twoInk: '#ffd9a8',
  ever: '#8f74e8',
  everInk: '#100726',
  failed: '#54430f',
  failedInk: '#ffe9b8',
};

const COLOURED = ['held', 'wrong', 'two', 'ever', 'failed'];

const STYLE =
  'text{font-size:13px;fill:var(--soft)}' +
  '.name{fill:var(--ink);font-size:13px}.ours{font-weight:700}.none{fill:var(--soft)}' +
  COLOURED.map((name) => `.${name}{fill:var(--${name})}`).join('') +
  '.sign{font-weight:700;font-size:13px}' +
  COLOURED.map(
    (name) =>
      `.${name}+.sign{fill:var(--${name}Ink)}.${name}+.sign+.mark{stroke:var(--${name}Ink)}`,
  ).join('') +
  '.mark{fill:none;stroke-width:1.2}.alone rect{fill:none;stroke:var(--line)}.alone .mark{stroke:var(--ink)}';

const OWN = {
  light: { ...LIGHT, ...CELLS_LIGHT },
  dark: { ...DARK, ...CELLS_DARK },
  style: STYLE,
};
