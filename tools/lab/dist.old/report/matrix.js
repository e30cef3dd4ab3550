import { ACCIDENTS } from '../accidents/index.js';
import { STAGES } from '../stages/index.js';
/** The stages and accidents that were run, in their order. */
export function matrixOf(trials) {
    const accidents = ACCIDENTS.filter(({ id }) => trials.some(({ accident }) => accident === id));
    const stages = STAGES.filter(({ number }) => trials.some(({ stage }) => stage === number));
    const rows = stages.map((stage) => ({
        stage,
        cells: accidents.map((accident) => ({
            accident,
            trial: trials.find((each) => each.stage === stage.number && each.accident === accident.id),
            cannot: accident.cannotHappenTo(stage),
        })),
    }));
    return { rows, accidents };
}
/** The worst of what was found. */
export function verdictOf({ findings }) {
    return findings[0] ?? 'held';
}
const LETTERS = {
    held: 'held',
    'stock wrong': 'STOCK',
    'two holders': 'TWO',
    'locked for ever': 'EVER',
    'call failed': 'FAILED',
    'nobody was told': 'UNTOLD',
};
/** The matrix for a terminal. */
export function matrixText(trials) {
    const { rows, accidents } = matrixOf(trials);
    const name = 30;
    const width = 8;
    const heads = accidents.map(({ id }) => id.slice(0, width - 1).padEnd(width)).join('');
    const lines = rows.map(({ stage, cells }) => {
        const texts = cells.map(({ trial }) => (trial === undefined ? '-' : LETTERS[verdictOf(trial)]).padEnd(width));
        return `${String(stage.number).padStart(2)} ${stage.name.padEnd(name)}${texts.join('')}`;
    });
    return [
        `   ${''.padEnd(name)}${heads}`,
        ...lines,
        '',
        'held: right, and nobody blocked for ever · STOCK: stock wrong (two held the lock) · TWO: two holders, stock right by luck or fence',
        'EVER: locked for ever · FAILED: a call failed that should not · -: cannot happen to this stage',
    ].join('\n');
}
//# sourceMappingURL=matrix.js.map