import { nameFrom, namesFrom, wholeNumberFrom } from 'kit';
import { parseArgs } from 'node:util';
import { FAULT_NAMES, type StageKind, STAGES } from './stages/stages.js';
import { SALE_FEATURES, type SaleFeature } from './transactions/sale-plan.js';
import { BROKEN_RULES, type BrokenRule } from './transactions/sales-task.js';
import { type Feature, FEATURES, type KindOfCall, KINDS_OF_CALL } from './worker/repertoire.js';
import { type Break, BREAKS } from './worker/sabotage.js';

export const USAGE = `Processes under random faults, and a checker of what they saw. Exit code: 0 if nothing was found.

npm run torture -- [--seed N] [--seconds N] [--processes N] [--stage ${STAGES.join('|')}]
                   [--only NAMES] [--without NAMES] [--break NAMES] [--keep]
npm run torture -- --transactions [--seed N] [--seconds N] [--processes N] [--callers N]
                   [--without NAMES] [--break NAMES] [--keep]

NAMES are separated by commas; a wrong one is answered with all that there are.`;

/** Of every run. */
export interface RunOptions {
  readonly seed: number;
  readonly seconds: number;
  readonly processes: number;
  /** Whether histories are kept even if nothing was found in them. */
  readonly keep: boolean;
}

export interface TortureOptions extends RunOptions {
  /** If it is undefined, the seed chooses. */
  readonly stage: StageKind | undefined;
  readonly kinds: readonly KindOfCall[];
  /** What is left out of calls of all kinds. */
  readonly without: readonly Feature[];
  /** The names of faults, with hyphens. */
  readonly faults: ReadonlySet<string>;
  /** Breaks the lock on purpose; no faults happen then but those that were asked for. */
  readonly breaks: readonly Break[];
}

/** The seconds are for both halves together, without and with the fence. */
export interface SalesOptions extends RunOptions {
  /** The number over all processes. */
  readonly callers: number;
  /** What is left out, to find the cause of a violation. */
  readonly without: ReadonlySet<SaleFeature>;
  /** What is broken on purpose, to see whether the checker notices. There is only the half without the fence then. */
  readonly breaks: readonly BrokenRule[];
}

const FAULTS = FAULT_NAMES.map(hyphenated);
/** What `--without` and `--only` can name. `faults` is all of them. */
const NAMES = ['faults', ...KINDS_OF_CALL, ...FEATURES, ...FAULTS];

/** How names are written on a command line. */
export function hyphenated(name: string): string {
  return name.replaceAll(' ', '-');
}

const RUN_OPTIONS = {
  seed: { type: 'string', default: String(Date.now() % 1_000_000) },
  seconds: { type: 'string', default: '60' },
  keep: { type: 'boolean', default: false },
  break: { type: 'string', default: '' },
} as const;

/** @throws Error that names the option, its value and what is allowed */
export function readOptions(args: string[]): TortureOptions {
  const { values } = parseArgs({
    args,
    options: {
      ...RUN_OPTIONS,
      processes: { type: 'string', default: '4' },
      stage: { type: 'string' },
      without: { type: 'string', default: '' },
      only: { type: 'string', default: '' },
    },
  });
  const without = namesFrom('without', values.without, NAMES);
  const only = namesFrom('only', values.only, NAMES);
  const breaks = [...namesFrom('break', values.break, BREAKS)];
  const isBroken = breaks.length > 0 && !FAULTS.some((name) => only.has(name));
  const hasNone = without.has('faults') || isBroken;
  return {
    ...runOptions(values, 1, 2),
    stage: values.stage === undefined ? undefined : nameFrom('stage', values.stage, STAGES),
    kinds: chosen(KINDS_OF_CALL, only, without),
    without: FEATURES.filter((name) => without.has(name)),
    // One cause at a time, unless what is broken shows under one of these faults only.
    faults: new Set(hasNone ? [] : chosen(FAULTS, only, without)),
    breaks,
  };
}

/** @throws Error that names the option, its value and what is allowed */
export function readSalesOptions(args: string[]): SalesOptions {
  const { values } = parseArgs({
    args,
    options: {
      ...RUN_OPTIONS,
      processes: { type: 'string', default: '3' },
      transactions: { type: 'boolean' },
      callers: { type: 'string', default: '20' },
      without: { type: 'string' },
    },
  });
  const breaks = [...namesFrom('break', values.break, BROKEN_RULES)];
  // One cause at a time, unless the cause is to meet something in particular.
  const without = values.without ?? (breaks.length > 0 ? SALE_FEATURES : '');
  return {
    ...runOptions(values, 2, 1),
    callers: wholeNumberFrom('callers', values.callers, 1),
    without: namesFrom('without', without, SALE_FEATURES),
    breaks,
  };
}

function runOptions(
  values: { seed: string; seconds: string; processes: string; keep: boolean },
  leastSeconds: number,
  leastProcesses: number,
): RunOptions {
  return {
    seed: wholeNumberFrom('seed', values.seed, 0),
    seconds: wholeNumberFrom('seconds', values.seconds, leastSeconds),
    processes: wholeNumberFrom('processes', values.processes, leastProcesses),
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
