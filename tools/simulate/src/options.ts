import { chosenFrom, nameFrom, numberFrom, wholeNumberFrom } from 'kit';
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { JUDGE_NAMES, type JudgeName } from './judges.js';
import { BREAK_NAMES, type BreakName } from './server/breaks.js';

export const USAGE = `Histories of the lock engine in a world of virtual time. Exit code: 0 if nothing was found.

npm run simulate -- [--seed N] [--histories N | --hours N] [--threads N] [--break '${BREAK_NAMES.join("' | '")}']
                    [--judge ${JUDGE_NAMES.join(' | ')}]     both if not given
npm run simulate -- --seed N --print     the whole history, one line of JSON for each event

The same seed always gives the same history. One that breaks a promise is shortened, and shown. Without --threads, all
cores play.`;

export interface SimulateOptions {
  readonly seed: number;
  /** Infinity if the time decides. */
  readonly histories: number;
  readonly hours: number | undefined;
  readonly threads: number;
  readonly breaks: BreakName | undefined;
  readonly print: boolean;
  readonly judges: readonly JudgeName[];
}

export function optionsFrom(args: readonly string[]): SimulateOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      seed: { type: 'string', default: '1' },
      histories: { type: 'string' },
      hours: { type: 'string' },
      threads: { type: 'string', default: String(availableParallelism()) },
      break: { type: 'string' },
      judge: { type: 'string', default: '' },
      print: { type: 'boolean', default: false },
    },
  });
  const hours = numberFrom('hours', values.hours, 0);
  const { histories = hours === undefined ? (values.print ? '1' : '100') : undefined } = values;
  return {
    seed: wholeNumberFrom('seed', values.seed, 0),
    histories: histories === undefined ? Infinity : wholeNumberFrom('histories', histories, 1),
    hours,
    threads: values.print ? 1 : wholeNumberFrom('threads', values.threads, 1),
    breaks: values.break === undefined ? undefined : nameFrom('break', values.break, BREAK_NAMES),
    print: values.print,
    judges: chosenFrom('judge', values.judge, JUDGE_NAMES),
  };
}
