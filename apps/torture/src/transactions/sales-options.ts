import { parseArgs } from 'node:util';

export interface SalesOptions {
  readonly seed: number;
  /** For both halves together: without and with the fence. */
  readonly seconds: number;
  readonly processes: number;
  /** Over all processes. */
  readonly callers: number;
  /** The transactions are not known to the locks. */
  readonly breakRule: boolean;
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
      break: { type: 'boolean', default: false },
    },
  });
  return {
    seed: wholeNumber('seed', values.seed, 0),
    seconds: wholeNumber('seconds', values.seconds, 2),
    processes: wholeNumber('processes', values.processes, 1),
    callers: wholeNumber('callers', values.callers, 1),
    breakRule: values.break,
  };
}

function wholeNumber(name: string, text: string, min: number): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= min) return value;
  throw new Error(`--${name} ${text}: it must be a whole number from ${min}`);
}
