import { chosenFrom, numberFrom } from 'kit';
import { parseArgs } from 'node:util';
import { SCENARIOS } from './scenarios/index.js';

export type BenchOptions = ReturnType<typeof readOptions>;

/** @throws Error that names the option, its value and what is allowed */
export function readOptions(args: string[]) {
  const { values } = parseArgs({
    args,
    options: {
      only: { type: 'string', multiple: true, default: [] },
      quick: { type: 'boolean', default: false },
      rounds: { type: 'string' },
      pace: { type: 'string' },
      out: { type: 'string' },
      check: { type: 'boolean', default: false },
      save: { type: 'boolean', default: false },
      page: { type: 'boolean', default: false },
      list: { type: 'boolean', default: false },
    },
  });
  const { only, quick, rounds, pace, save, ...others } = values;
  if (save && (only.length > 0 || quick || rounds || pace)) {
    throw new Error(
      '--save keeps what a whole run has measured: leave all other options but --check out',
    );
  }
  const known = SCENARIOS.map(({ id }) => id);
  const chosen = new Set(chosenFrom('only', only, known));
  return {
    ...others,
    save,
    mode: quick ? ('quick' as const) : ('full' as const),
    rounds: numberFrom('rounds', rounds, 1),
    pace: numberFrom('pace', pace, 0.01),
    scenarios: SCENARIOS.filter(
      ({ id, isQuick }) => chosen.has(id) && (only.length > 0 || isQuick || !quick),
    ),
  };
}
