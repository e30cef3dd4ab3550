import { parseArgs } from 'node:util';
import { BROKEN_RULES, type BrokenRule } from './broken-rule.js';

export interface SalesOptions {
  readonly seed: number;
  /** For both halves together: without and with the fence. There is only the first one if something is broken. */
  readonly seconds: number;
  readonly processes: number;
  /** Over all processes. */
  readonly callers: number;
  /** Broken on purpose, to see whether the checker notices. */
  readonly broken: readonly BrokenRule[];
}

/** @throws Error naming the option, its value and what is allowed */
export function readSalesOptions(args: string[]): SalesOptions {
  const { values } = parseArgs({
    args,
    options: {
      transactions: { type: 'boolean' },
      seed: { type: 'string', default: String(Date.now() % 1_000_000) },
      seconds: { type: 'string', default: '60' },
      processes: { type: 'string', default: '3' },
      callers: { type: 'string', default: '20' },
      break: { type: 'string', default: '' },
    },
  });
  return {
    seed: wholeNumber('seed', values.seed, 0),
    seconds: wholeNumber('seconds', values.seconds, 2),
    processes: wholeNumber('processes', values.processes, 1),
    callers: wholeNumber('callers', values.callers, 1),
    broken: brokenRules(values.break),
  };
}

function brokenRules(text: string): BrokenRule[] {
  return text
    .split(',')
    .filter((name) => name !== '')
    .map((name) => {
      const rule = BROKEN_RULES.find((one) => one === name);
      if (rule !== undefined) return rule;
      throw new Error(`--break ${name}: it must be one of ${BROKEN_RULES.join(', ')}`);
    });
}

function wholeNumber(name: string, text: string, min: number): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= min) return value;
  throw new Error(`--${name} ${text}: it must be a whole number from ${min}`);
}
