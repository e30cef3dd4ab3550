import { escapeMarkup, roundForSvg, svgPicture } from 'kit';
import type { Trial } from '../run/trial.js';
import { LEGEND, matrixOf, type Verdict, verdictOf } from './matrix.js';
import { DARK, LIGHT, NARROW } from './timeline-svg.js';

const LABEL = 'Stages by accidents: what held and what broke';

const NAME = 268;
const CELL = 40;
const ROW = 26;
const HEAD = 214;

/** The matrix as a picture for documents. */
export function matrixSvg(trials: readonly Trial[]): string {
  const { rows, accidents } = matrixOf(trials);
  const width = NAME + accidents.length * CELL + 150;
  const height = HEAD + rows.length * ROW + 44;
  const heads = accidents.map(
    ({ name }, n) =>
      `<text transform="translate(${NAME + n * CELL + 24} ${HEAD - 10}) rotate(-42)">${escapeMarkup(name)}</text>`,
  );
  const lines = rows.flatMap(({ stage, cells }, r) => {
    const top = HEAD + r * ROW;
    const css = stage.number === 17 ? 'name ours' : 'name';
    const name = escapeMarkup(`${stage.number}  ${stage.name}`);
    return [
      `<text class="${css}" x="${NAME - 12}" y="${top + 18}" text-anchor="end">${name}</text>`,
      ...cells.map(({ trial }, n) => {
        const left = NAME + n * CELL;
        return trial === undefined
          ? `<text class="none" x="${left + CELL / 2}" y="${top + 17}" text-anchor="middle">·</text>`
          : square(verdictOf(trial), left + 2, top + 2, CELL - 4, ROW - 4, 16);
      }),
    ];
  });
  const legend = LEGEND.map((verdict, n) => {
    const left = NAME + n * 118;
    const text = `<text x="${left + 28}" y="${height - 19}">${escapeMarkup(verdict.short)}</text>`;
    return square(verdict, left, height - 32, 22, 18, 14) + text;
  });
  return svgPicture({
    width,
    height,
    label: LABEL,
    own: OWN,
    parts: [...heads, ...lines, ...legend],
  });
}

/** The same for a phone: the accidents are written upwards, and the name of a stage is above its cells. */
export function narrowMatrixSvg(trials: readonly Trial[]): string {
  const { rows, accidents } = matrixOf(trials);
  const margin = 6;
  const cell = Math.floor((NARROW - 2 * margin) / Math.max(1, accidents.length));
  const head = 16 + 6.9 * Math.max(0, ...accidents.map(({ name }) => name.length));
  const step = 46;
  const heads = accidents.map(({ name }, n) => {
    const place = `translate(${margin + n * cell + cell / 2 + 4} ${roundForSvg(head - 6)})`;
    return `<text transform="${place} rotate(-90)">${escapeMarkup(name)}</text>`;
  });
  const lines = rows.flatMap(({ stage, cells }, r) => {
    const top = roundForSvg(head + r * step);
    const css = stage.number === 17 ? 'name ours' : 'name';
    return [
      `<text class="${css}" x="${margin}" y="${top + 14}">${escapeMarkup(`${stage.number}  ${stage.name}`)}</text>`,
      ...cells.map(({ trial }, n) => {
        const left = margin + n * cell;
        return trial === undefined
          ? `<text class="none" x="${left + cell / 2}" y="${top + 34}" text-anchor="middle">·</text>`
          : square(verdictOf(trial), left + 1, top + 20, cell - 2, 20, 15);
      }),
    ];
  });
  const foot = roundForSvg(head + rows.length * step + 10);
  const legend = LEGEND.map((verdict, n) => {
    const left = margin + (n % 3) * 120;
    const top = foot + Math.floor(n / 3) * 26;
    const text = `<text x="${left + 28}" y="${top + 14}">${escapeMarkup(verdict.short)}</text>`;
    return square(verdict, left, top, 22, 18, 14) + text;
  });
  return svgPicture({
    width: NARROW,
    height: foot + Math.ceil(LEGEND.length / 3) * 26 + 4,
    label: LABEL,
    own: OWN,
    parts: [...heads, ...lines, ...legend],
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
    `<text class="sign" x="${left + width / 2}" y="${top + baseline}" text-anchor="middle">${sign}</text>`
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
  COLOURED.map((name) => `.${name}+.sign{fill:var(--${name}Ink)}`).join('');

const OWN = {
  light: { ...LIGHT, ...CELLS_LIGHT },
  dark: { ...DARK, ...CELLS_DARK },
  style: STYLE,
};
