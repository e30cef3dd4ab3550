import { chosenFrom } from 'kit';
import { parseArgs } from 'node:util';
import { SCENARIOS } from './scenarios/index.js';

export interface CompareOptions {
  /** Names of scenarios; all of them if none was given. */
  readonly only: readonly string[];
  /** Only print the names. */
  readonly list: boolean;
  /** Only our sides, and once each: no peer has to be installed. */
  readonly ours: boolean;
  /** Each side once, which is quicker. The page says how often each was played. */
  readonly once: boolean;
  /** Write the page and the results: all of them, or those of `only` in the place of those that were saved. */
  readonly save: boolean;
  /** Only write the page again, from the saved results. */
  readonly page: boolean;
  /** Only measure the packages, and save that beside the outcomes that were saved. */
  readonly packages: boolean;
}

/** @throws Error for an unknown option or scenario, and for `--save` without the peers */
export function readOptions(args: readonly string[]): CompareOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      only: { type: 'string', multiple: true, default: [] },
      list: { type: 'boolean', default: false },
      ours: { type: 'boolean', default: false },
      once: { type: 'boolean', default: false },
      save: { type: 'boolean', default: false },
      page: { type: 'boolean', default: false },
      packages: { type: 'boolean', default: false },
    },
  });
  if (values.save && values.ours) {
    throw new Error('--save writes what came out of all sides: leave --ours out');
  }
  return { ...values, only: chosenFrom('only', values.only, Object.keys(SCENARIOS)) };
}
