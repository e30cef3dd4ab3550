import { parseArgs } from 'node:util';
import { SCENARIOS } from './scenarios/index.js';

export interface BenchOptions {
  /** The ids of the scenarios to run. */
  readonly only: readonly string[];
  readonly isQuick: boolean;
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
      quick: { type: 'boolean', default: false },
      list: { type: 'boolean', default: false },
      check: { type: 'boolean', default: false },
      save: { type: 'boolean', default: false },
    },
  });
  const known = SCENARIOS.map(({ id }) => id);
  const wanted = values.only.flatMap((text) => text.split(','));
  for (const id of wanted) {
    if (!known.includes(id)) {
      throw new Error(`--only is '${id}': give one or several of ${known.join(', ')}`);
    }
  }
  if (values.save && (values.quick || wanted.length > 0)) {
    throw new Error('--save keeps what a whole run has measured: leave --quick and --only out');
  }
  const runs = SCENARIOS.filter(({ id, isQuick }) =>
    wanted.length > 0 ? wanted.includes(id) : isQuick || !values.quick,
  );
  return {
    only: runs.map(({ id }) => id),
    isQuick: values.quick,
    onlyList: values.list,
    check: values.check,
    save: values.save,
  };
}
