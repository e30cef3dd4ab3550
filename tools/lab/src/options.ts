import { parseArgs } from 'node:util';
import { ACCIDENTS } from './accidents/index.js';
import { STAGES } from './stages/index.js';

export interface LabOptions {
  /** The numbers of the stages to run. */
  readonly stages: readonly number[];
  /** The names of the accidents to provoke. */
  readonly accidents: readonly string[];
  readonly onlyList: boolean;
  /** Where the report is written. */
  readonly out: string;
  readonly seed: number;
  /** How many trials run at the same time. */
  readonly atOnce: number;
}

/** @throws Error that names the option, its value and what is allowed */
export function readOptions(args: string[]): LabOptions {
  const { values } = parseArgs({
    args,
    options: {
      stage: { type: 'string', multiple: true, default: [] },
      accident: { type: 'string', multiple: true, default: [] },
      list: { type: 'boolean', default: false },
      out: { type: 'string', default: 'lab' },
      seed: { type: 'string', default: '1' },
      'at-once': { type: 'string', default: '6' },
    },
  });
  return {
    stages: chosen(
      'stage',
      values.stage,
      STAGES.map(({ number }) => String(number)),
    ).map(Number),
    accidents: chosen(
      'accident',
      values.accident,
      ACCIDENTS.map(({ id }) => id),
    ),
    onlyList: values.list,
    out: values.out,
    seed: wholeNumber('seed', values.seed, 0),
    atOnce: wholeNumber('at-once', values['at-once'], 1),
  };
}

/** Several values may be given: `--stage 6 --stage 7` or `--stage 6,7`. None means all. */
function chosen(name: string, given: readonly string[], known: readonly string[]): string[] {
  const wanted = given.flatMap((text) => text.split(','));
  for (const text of wanted) {
    if (!known.includes(text)) {
      throw new Error(`--${name} is '${text}': give one of ${known.join(', ')}`);
    }
  }
  return wanted.length === 0 ? [...known] : known.filter((text) => wanted.includes(text));
}

function wholeNumber(name: string, text: string, min: number): number {
  const value = /^\d+$/.test(text) ? Number(text) : NaN;
  if (Number.isSafeInteger(value) && value >= min) return value;
  throw new Error(`--${name} is '${text}': give a whole number from ${min}`);
}
