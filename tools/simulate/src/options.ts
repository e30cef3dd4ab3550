import { chosenFrom, nameFrom, numberFrom, wholeNumberFrom } from 'kit';
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { JUDGE_NAMES, type JudgeName } from './judges.js';
import { BREAK_NAMES } from './server/breaks.js';
import { QUORUM_BREAK_NAMES } from './server/quorum-breaks.js';
import { type AnyBreakName, STAGE_NAMES, type StageName } from './stages.js';

export const USAGE = `Histories of the lock engine in a world of virtual time. Exit code: 0 if nothing was found.

npm run simulate -- [--seed N] [--histories N | --hours N] [--threads N] [--break '${BREAK_NAMES.join("' | '")}']
                    [--judge ${JUDGE_NAMES.join(' | ')}]     both if not given
npm run simulate -- --stage quorum [...] [--break '${QUORUM_BREAK_NAMES.join("' | '")}']
npm run simulate -- --seed N --print     the whole history, one line of JSON for each event

The same seed always gives the same history. One that breaks a promise is shortened, and shown; with --whole, it
is shown as it was played. Without --threads, all cores play.`;

export interface SimulateOptions {
  readonly seed: number;
  /** Infinity if the time decides. */
  readonly histories: number;
  readonly hours: number | undefined;
  readonly threads: number;
  readonly stage: StageName;
  readonly breaks: AnyBreakName | undefined;
  readonly print: boolean;
  readonly isWhole: boolean;
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
      stage: { type: 'string', default: 'server' },
      break: { type: 'string' },
      judge: { type: 'string', default: '' },
      print: { type: 'boolean', default: false },
      whole: { type: 'boolean', default: false },
    },
  });
  const hours = numberFrom('hours', values.hours, 0);
  const { histories = hours === undefined ? (values.print ? '1' : '100') : undefined } = values;
  const stage = nameFrom('stage', values.stage, STAGE_NAMES);
  const breaks = stage === 'quorum' ? QUORUM_BREAK_NAMES : BREAK_NAMES;
  return {
    seed: wholeNumberFrom('seed', values.seed, 0),
    histories: histories === undefined ? Infinity : wholeNumberFrom('histories', histories, 1),
    hours,
    threads: values.print ? 1 : wholeNumberFrom('threads', values.threads, 1),
    stage,
    breaks:
      values.break === undefined
        ? undefined
        : nameFrom<AnyBreakName>('break', values.break, breaks),
    print: values.print,
    isWhole: values.whole,
    judges: judgesFrom(stage, values.judge),
  };
}

/** The specification has no quorum. */
function judgesFrom(stage: StageName, text: string): readonly JudgeName[] {
  if (stage !== 'quorum') return chosenFrom('judge', text, JUDGE_NAMES);
  if (text === '' || text === 'check-history') return ['check-history'];
  throw new Error(
    `--judge is '${text}': the specification has no quorum, so give check-history, or nothing`,
  );
}
