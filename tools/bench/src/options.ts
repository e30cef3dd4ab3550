import { namesFrom, numberFrom } from 'kit';
import { parseArgs } from 'node:util';
import { SCENARIOS } from './scenarios/index.js';

export interface BenchOptions {
  /** The ids of the scenarios to run. */
  readonly only: readonly string[];
  readonly mode: 'full' | 'quick';
  /** Whether only to write the page again, from the numbers of the last release. */
  readonly onlyPage: boolean;
  /** Where the numbers of this run are written. Default: tools/bench/results/latest.json. */
  readonly out: string | undefined;
  /** How many rounds count, and how long they are in proportion to the full ones. Default: those of the mode. */
  readonly rounds: number | undefined;
  readonly pace: number | undefined;
  readonly onlyList: boolean;
  /** Whether to compare with the numbers of the last release. */
  readonly check: boolean;
  /** Whether to write the numbers of this version, and the page about them. */
  readonly save: boolean;
}

/** @throws Error that names the option, its value and what is allowed */
export function readOptions(args: string[]): BenchOptions {
  const { values } = parseArgs({
    args,
    options: {
      only: { type: 'string', multiple: true, default: [] },
      page: { type: 'boolean', default: false },
      out: { type: 'string' },
      rounds: { type: 'string' },
      pace: { type: 'string' },
      quick: { type: 'boolean', default: false },
      list: { type: 'boolean', default: false },
      check: { type: 'boolean', default: false },
      save: { type: 'boolean', default: false },
    },
  });
  const known = SCENARIOS.map(({ id }) => id);
  const wanted = namesFrom('only', values.only, known);
  const isWhole = wanted.size === 0 && !values.quick && !values.rounds && !values.pace;
  if (values.save && !isWhole) {
    throw new Error(
      '--save keeps what a whole run has measured: leave all other options but --check out',
    );
  }
  const runs = SCENARIOS.filter(({ id, isQuick }) =>
    wanted.size > 0 ? wanted.has(id) : isQuick || !values.quick,
  );
  return {
    only: runs.map(({ id }) => id),
    mode: values.quick ? 'quick' : 'full',
    onlyPage: values.page,
    out: values.out,
    rounds: numberFrom('rounds', values.rounds, 1),
    pace: numberFrom('pace', values.pace, 0.01),
    onlyList: values.list,
    check: values.check,
    save: values.save,
  };
}
