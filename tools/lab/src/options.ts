import { chosenFrom, wholeNumberFrom } from 'kit';
import { parseArgs } from 'node:util';
import { ACCIDENTS } from './accidents.js';
import { STAGES } from './stages/index.js';

export interface LabOptions {
  /** The stages to run. */
  readonly stages: readonly string[];
  /** The names of the accidents to provoke. */
  readonly accidents: readonly string[];
  readonly onlyList: boolean;
  /** Writes what the documentation shows, if everything is as expected. What was not played stays as it was saved. */
  readonly save: boolean;
  /** Only writes what the documentation shows, from the run that was saved. */
  readonly page: boolean;
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
      save: { type: 'boolean', default: false },
      page: { type: 'boolean', default: false },
      out: { type: 'string', default: 'lab' },
      seed: { type: 'string', default: '1' },
      'at-once': { type: 'string', default: '6' },
    },
  });
  return {
    stages: chosenFrom(
      'stage',
      values.stage,
      STAGES.map(({ id }) => id),
    ),
    accidents: chosenFrom(
      'accident',
      values.accident,
      ACCIDENTS.map(({ id }) => id),
    ),
    onlyList: values.list,
    save: values.save,
    page: values.page,
    out: values.out,
    seed: wholeNumberFrom('seed', values.seed, 0),
    atOnce: wholeNumberFrom('at-once', values['at-once'], 1),
  };
}
