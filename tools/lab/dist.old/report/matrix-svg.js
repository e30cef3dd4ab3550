import { escapeMarkup, svgPicture } from 'kit';
import { matrixOf, verdictOf } from './matrix.js';
import { DARK, LIGHT } from './timeline-svg.js';
import { VERDICTS } from './verdict-words.js';
const NAME = 268;
const CELL = 40;
const ROW = 26;
const HEAD = 196;
/** The matrix as a picture for documents. */
export function matrixSvg(trials) {
    const { rows, accidents } = matrixOf(trials);
    const width = NAME + accidents.length * CELL + 150;
    const height = HEAD + rows.length * ROW + 44;
    const heads = accidents.map(({ name }, n) => `<text transform="translate(${NAME + n * CELL + 24} ${HEAD - 10}) rotate(-42)">${escapeMarkup(name)}</text>`);
    const lines = rows.flatMap(({ stage, cells }, r) => {
        const top = HEAD + r * ROW;
        const ours = stage.number === 17;
        return [
            `<text class="name${ours ? ' ours' : ''}" x="${NAME - 12}" y="${top + 18}" text-anchor="end">${escapeMarkup(`${stage.number}  ${stage.name}`)}</text>`,
            ...cells.map(({ trial }, n) => {
                const left = NAME + n * CELL;
                if (trial === undefined) {
                    return `<text class="none" x="${left + CELL / 2}" y="${top + 17}" text-anchor="middle">·</text>`;
                }
                const { sign, css } = VERDICTS[verdictOf(trial)];
                return (`<rect class="${css}" x="${left + 2}" y="${top + 2}" width="${CELL - 4}" height="${ROW - 4}" rx="4"/>` +
                    `<text class="sign" x="${left + CELL / 2}" y="${top + 18}" text-anchor="middle">${sign}</text>`);
            }),
        ];
    });
    const legend = Object.values(VERDICTS)
        .filter(({ short }) => short !== 'not told')
        .map(({ sign, short, css }, n) => `<rect class="${css}" x="${NAME + n * 118}" y="${height - 32}" width="22" height="18" rx="4"/>` +
        `<text class="sign" x="${NAME + n * 118 + 11}" y="${height - 18}" text-anchor="middle">${sign}</text>` +
        `<text x="${NAME + n * 118 + 28}" y="${height - 19}">${escapeMarkup(short)}</text>`);
    return svgPicture({
        width,
        height,
        label: 'Stages by accidents: what held and what broke',
        own: {
            light: { ...LIGHT, ...CELLS_LIGHT },
            dark: { ...DARK, ...CELLS_DARK },
            style: STYLE,
        },
        parts: [...heads, ...lines, ...legend],
    });
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
export const CELLS_DARK = {
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
const STYLE = 'text{font-size:11.5px;fill:var(--soft)}' +
    '.name{fill:var(--ink);font-size:12.5px}.ours{font-weight:700}.none{fill:var(--soft)}' +
    '.held{fill:var(--held)}.wrong{fill:var(--wrong)}.two{fill:var(--two)}.ever{fill:var(--ever)}.failed{fill:var(--failed)}' +
    '.sign{font-weight:700;font-size:13px}' +
    ['held', 'wrong', 'two', 'ever', 'failed']
        .map((name) => `.${name}+.sign{fill:var(--${name}Ink)}`)
        .join('');
//# sourceMappingURL=matrix-svg.js.map