import { type Accident, ACCIDENTS, whyNot } from '../accidents.js';
import type { Finding } from '../run/findings.js';
import type { Trial } from '../run/trial.js';
import { STAGES } from '../stages/index.js';
import type { Stage } from '../stages/stage.js';

/** One stage in one accident: what was found, or why it cannot happen; undefined if it was not run. */
export interface Cell {
  readonly accident: Accident;
  readonly trial: Trial | undefined;
  readonly cannot: string | undefined;
}

export interface Row {
  readonly stage: Stage;
  readonly cells: readonly Cell[];
}

/** The stages and accidents that were run, in their order. */
export function matrixOf(trials: readonly Trial[]): { rows: Row[]; accidents: Accident[] } {
  const accidents = ACCIDENTS.filter(({ id }) => trials.some(({ accident }) => accident === id));
  const stages = STAGES.filter(({ number }) => trials.some(({ stage }) => stage === number));
  const rows = stages.map((stage) => ({
    stage,
    cells: accidents.map((accident) => ({
      accident,
      trial: trialOf(trials, stage.number, accident.id),
      cannot: whyNot(accident, stage),
    })),
  }));
  return { rows, accidents };
}

export function trialOf(
  trials: readonly Trial[],
  stage: number,
  accident: string,
): Trial | undefined {
  return trials.find((trial) => trial.stage === stage && trial.accident === accident);
}

/** The matrix for a terminal. */
export function matrixText(trials: readonly Trial[]): string {
  const { rows, accidents } = matrixOf(trials);
  const line = (stage: string, cells: readonly string[]): string =>
    stage.padEnd(33) + cells.map((text) => text.slice(0, 7).padEnd(8)).join('');
  return [
    line(
      '',
      accidents.map(({ id }) => id),
    ),
    ...rows.map(({ stage: { number, name }, cells }) =>
      line(
        `${String(number).padStart(2)} ${name}`,
        cells.map(({ trial }) => (trial === undefined ? '-' : verdictOf(trial).letters)),
      ),
    ),
    '',
    'held: right, and nobody blocked for ever · STOCK: stock wrong (two held the lock) · TWO: two holders, stock right by luck or fence',
    'EVER: locked for ever · FAILED: a call failed that should not · LESS: a goal was missed · -: cannot happen to this stage',
  ].join('\n');
}

export interface Verdict {
  /** Shown in a cell beside the word, because colour alone tells many readers nothing. */
  readonly sign: string;
  readonly short: string;
  /** The word for a narrow cell. */
  readonly word: string;
  /** The word for the terminal. */
  readonly letters: string;
  readonly css: string;
  readonly meaning: string;
}

/** The worst of what was found. */
export function verdictOf({ findings }: Trial): Verdict {
  return VERDICTS[findings[0] ?? 'held'];
}

const VERDICTS: Readonly<Record<Finding | 'held', Verdict>> = {
  held: {
    sign: '✓',
    short: 'held',
    word: 'held',
    letters: 'held',
    css: 'held',
    meaning:
      'The stock is right, and nobody is blocked for longer than a dead holder’s lock lasts.',
  },
  'stock wrong': {
    sign: '✗',
    short: 'stock wrong',
    word: 'wrong',
    letters: 'STOCK',
    css: 'wrong',
    meaning: 'More was sold than left the stock: two were inside, and one overwrote the other.',
  },
  'two holders': {
    sign: '2',
    short: 'two holders',
    word: 'two',
    letters: 'TWO',
    css: 'two',
    meaning: 'Two believed that they held the lock; the stock still came out right.',
  },
  'locked for ever': {
    sign: '∞',
    short: 'for ever',
    word: 'stuck',
    letters: 'EVER',
    css: 'ever',
    meaning: 'Nobody gets in any more, until a human removes the key or the other process rests.',
  },
  'call failed': {
    sign: '!',
    short: 'call failed',
    word: 'failed',
    letters: 'FAILED',
    css: 'failed',
    meaning: 'A purchase ended with an error that nobody meant: a crash, or a rollback.',
  },
  'goal missed': {
    sign: '<',
    short: 'goal missed',
    word: 'less',
    letters: 'LESS',
    css: 'failed',
    meaning: 'Nothing broke, but less was sold than could be, or somebody waited for too long.',
  },
  'nobody was told': {
    sign: '…',
    short: 'not told',
    word: 'untold',
    letters: 'UNTOLD',
    css: 'two',
    meaning: 'The lock was lost, and its holder never heard of it.',
  },
};

/** Those that a legend explains. The others are seldom the worst of it. */
export const LEGEND = Object.entries(VERDICTS).flatMap(([found, verdict]) =>
  found === 'nobody was told' || found === 'goal missed' ? [] : [verdict],
);
