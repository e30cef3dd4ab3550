import { parseArgs } from 'node:util';

export interface TortureOptions {
  readonly seed: number;
  readonly seconds: number;
  readonly processes: number;
  /** Breaks the lock on purpose. */
  readonly breakRule: boolean;
}

/** @throws Error naming the option, its value and what is allowed */
export function readOptions(args: string[]): TortureOptions {
  const { values } = parseArgs({
    args,
    options: {
      seed: { type: 'string', default: String(Date.now() % 1_000_000) },
      seconds: { type: 'string', default: '60' },
      processes: { type: 'string', default: '6' },
      break: { type: 'boolean', default: false },
    },
  });
  return {
    seed: wholeNumber('seed', values.seed, 0),
    seconds: wholeNumber('seconds', values.seconds, 1),
    processes: wholeNumber('processes', values.processes, 2),
    breakRule: values.break,
  };
}

function wholeNumber(name: string, text: string, min: number): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= min) return value;
  throw new Error(`--${name} ${text}: it must be a whole number from ${min}`);
}
