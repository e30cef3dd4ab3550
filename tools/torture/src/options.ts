import { nameFrom, namesFrom, wholeNumberFrom } from 'kit';
import { parseArgs } from 'node:util';
import { FAULT_NAMES } from './faults/faults.js';
import { type StageKind, STAGES } from './servers/stage.js';
import { type Feature, FEATURES, type KindOfCall, KINDS_OF_CALL } from './worker/repertoire.js';
import { type Break, BREAKS } from './worker/sabotage.js';

export interface TortureOptions {
  readonly seed: number;
  readonly seconds: number;
  readonly processes: number;
  /** If it is undefined, the seed chooses. */
  readonly stage: StageKind | undefined;
  readonly kinds: readonly KindOfCall[];
  /** What is left out of calls of all kinds. */
  readonly without: readonly Feature[];
  /** The names of faults, with hyphens. */
  readonly faults: ReadonlySet<string>;
  /** Breaks the lock on purpose; no faults happen then. */
  readonly breaks: readonly Break[];
  /** Whether the history is kept even if nothing was found in it. */
  readonly keep: boolean;
}

/** How names are written on a command line. */
export function hyphenated(name: string): string {
  return name.replaceAll(' ', '-');
}

const FAULTS = FAULT_NAMES.map(hyphenated);
/** What `--without` and `--only` can name. `faults` is all of them. */
const NAMES = ['faults', ...KINDS_OF_CALL, ...FEATURES, ...FAULTS];

/** @throws Error that names the option, its value and what is allowed */
export function readOptions(args: string[]): TortureOptions {
  const { values } = parseArgs({
    args,
    options: {
      seed: { type: 'string', default: String(Date.now() % 1_000_000) },
      seconds: { type: 'string', default: '60' },
      processes: { type: 'string', default: '4' },
      stage: { type: 'string' },
      without: { type: 'string', default: '' },
      only: { type: 'string', default: '' },
      break: { type: 'string', default: '' },
      keep: { type: 'boolean', default: false },
    },
  });
  const without = namesFrom('without', values.without, NAMES);
  const only = namesFrom('only', values.only, NAMES);
  return {
    seed: wholeNumberFrom('seed', values.seed, 0),
    seconds: wholeNumberFrom('seconds', values.seconds, 1),
    processes: wholeNumberFrom('processes', values.processes, 2),
    stage: values.stage === undefined ? undefined : nameFrom('stage', values.stage, STAGES),
    kinds: chosen(KINDS_OF_CALL, only, without),
    without: FEATURES.filter((name) => without.has(name)),
    faults: new Set(without.has('faults') ? [] : chosen(FAULTS, only, without)),
    breaks: [...namesFrom('break', values.break, BREAKS)],
    keep: values.keep,
  };
}

/** If `only` names nothing but faults, it does not restrict the calls, and vice versa. */
function chosen<Name extends string>(
  names: readonly Name[],
  only: ReadonlySet<string>,
  without: ReadonlySet<string>,
): Name[] {
  const named = names.filter((name) => only.has(name));
  return (named.length > 0 ? named : names).filter((name) => !without.has(name));
}
