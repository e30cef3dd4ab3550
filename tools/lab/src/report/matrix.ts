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
export interface Matrix {
  readonly rows: readonly Row[];
  readonly accidents: readonly Accident[];
}

/** That of the locks on one server, or in one place, and that of the locks on several servers; without an empty one. */
export function matricesOf(trials: readonly Trial[]): { one?: Matrix; several?: Matrix } {
  const several = trials.filter(({ stage }) => isOnSeveralServers(stage));
  const one = trials.filter(({ stage }) => !isOnSeveralServers(stage));
  return {
    ...(one.length > 0 && { one: matrixOf(one) }),
    ...(several.length > 0 && { several: matrixOf(several) }),
  };
}

function isOnSeveralServers(id: string): boolean {
  return STAGES.some((stage) => stage.id === id && stage.traits.includes('several servers'));
}

function matrixOf(trials: readonly Trial[]): Matrix {
  const accidents = ACCIDENTS.filter(({ id }) => trials.some(({ accident }) => accident === id));
  const stages = STAGES.filter(({ id }) => trials.some(({ stage }) => stage === id));
  const rows = stages.map((stage) => ({
    stage,
    cells: accidents.map((accident) => ({
      accident,
      trial: trialOf(trials, stage.id, accident.id),
      cannot: whyNot(accident, stage),
    })),
  }));
  return { rows, accidents };
}

export function trialOf(
  trials: readonly Trial[],
  stage: string,
  accident: string,
): Trial | undefined {
  return trials.find((trial) => trial.stage === stage && trial.accident === accident);
}

/** The matrix for a terminal. */
export function matrixText(trials: readonly Trial[]): string {
  const line = (stage: string, cells: readonly string[]): string =>
    stage.padEnd(33) + cells.map((text) => text.slice(0, 7).padEnd(8)).join('');
  const lines = Object.values(matricesOf(trials)).flatMap(({ rows, accidents }) => [
    line(
      '',
      accidents.map(({ id }) => id),
    ),
    ...rows.map(({ stage: { id, name }, cells }) =>
      line(
        `${id.padStart(3)} ${name}`,
        cells.map(({ trial }) => (trial === undefined ? '-' : lettersOf(trial))),
      ),
    ),
    '',
  ]);
  return [
    ...lines,
    'held: right, and nobody blocked for ever · STOCK: stock wrong (two held the lock) · TWO: two holders, stock right by luck or fence',
    '+: the holder of a lost lock was told late, at its release',
    'EVER: locked for ever · FAILED: a call failed that should not · LESS: a goal was missed · -: cannot happen to this stage',
  ].join('\n');
}

export interface Verdict {
  /** Shown in a cell, because colour alone tells many readers nothing. */
  readonly sign: string;
  readonly short: string;
  /** The word for the terminal. */
  readonly letters: string;
  readonly css: string;
  readonly meaning: string;
}

/** The verdict for the terminal, with a plus if the holder was told late. */
function lettersOf(trial: Trial): string {
  return verdictOf(trial).letters + (markOf(trial) === 'told late' ? '+' : '');
}

/** The worst of what was found. */
export function verdictOf({ findings }: Trial): Verdict {
  return VERDICTS[findings[0] ?? 'held'];
}

export const VERDICTS: Readonly<Record<Finding | 'held', Verdict>> = {
  held: {
    sign: '✓',
    short: 'held',
    letters: 'held',
    css: 'held',
    meaning: 'stock right, nobody stuck',
  },
  'stock wrong': {
    sign: '✗',
    short: 'stock wrong',
    letters: 'STOCK',
    css: 'wrong',
    meaning: 'more sold than left the stock',
  },
  'two holders': {
    sign: '2',
    short: 'two holders',
    letters: 'TWO',
    css: 'two',
    meaning: 'stock right by luck or fence',
  },
  'wrong fence': {
    sign: '#',
    short: 'wrong fence',
    letters: 'FENCE',
    css: 'two',
    meaning: 'a fencing number that is not above those before it',
  },
  'locked for ever': {
    sign: '∞',
    short: 'for ever',
    letters: 'EVER',
    css: 'ever',
    meaning: 'nobody gets in any more',
  },
  'call failed': {
    sign: '!',
    short: 'call failed',
    letters: 'FAILED',
    css: 'failed',
    meaning: 'an error that nobody meant',
  },
  'goal missed': {
    sign: '<',
    short: 'goal missed',
    letters: 'LESS',
    css: 'failed',
    meaning: 'less was sold than could be, or somebody waited for too long',
  },
  'wrong order': {
    sign: '⇅',
    short: 'wrong order',
    letters: 'ORDER',
    css: 'failed',
    meaning: 'who came later was let in first',
  },
  'nobody was told': {
    sign: '…',
    short: 'never told',
    letters: 'UNTOLD',
    css: 'two',
    meaning: 'holder heard nothing',
  },
  'told late': {
    sign: '◷',
    short: 'told late',
    letters: 'LATE',
    css: 'two',
    meaning: 'holder heard at release',
  },
};

/** What stands beside a verdict: what the holder heard of the loss of its lock. */
export type Mark = 'told late' | 'nobody was told';

export const MARKS: readonly Mark[] = ['told late', 'nobody was told'];

/** Undefined if no holder had to be told, or all were told in time. */
export function markOf({ findings }: Trial): Mark | undefined {
  return [...MARKS].reverse().find((mark) => findings.includes(mark));
}

const UNEXPLAINED: readonly string[] = [
  'wrong fence',
  'goal missed',
  'wrong order',
  'nobody was told',
  'told late',
];

/** Those that a legend explains. The others are seldom the worst of it, or are a mark. */
export const LEGEND = Object.entries(VERDICTS).flatMap(([found, verdict]) =>
  UNEXPLAINED.includes(found) ? [] : [verdict],
);
