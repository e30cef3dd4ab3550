import { wholeNumberFrom } from 'kit';
import { parseArgs } from 'node:util';

export interface DemoOptions {
  /** How many buyers there are in the flash sale. */
  readonly buyers: number;
  /** How many of them have an open request at any one time. */
  readonly atOnce: number;
  /** How many pieces the flash sale offers. */
  readonly pieces: number;
  /** Decides who buys how much. The same seed gives the same buyers. */
  readonly seed: number;
  /** Whether the processes stay afterwards, with a sale that goes on, until Ctrl-C. */
  readonly isKept: boolean;
}

const FULL_SALE = { buyers: 2_000, atOnce: 600, pieces: 500 };
const QUICK_SALE = { buyers: 200, atOnce: 100, pieces: 50 };

export function readOptions(args: string[]): DemoOptions {
  const { values } = parseArgs({
    args,
    options: {
      quick: { type: 'boolean', default: false },
      keep: { type: 'boolean', default: false },
      seed: { type: 'string' },
    },
  });
  const seed = wholeNumberFrom('seed', values.seed ?? randomSeed(), 0);
  return { ...(values.quick ? QUICK_SALE : FULL_SALE), seed, isKept: values.keep };
}

function randomSeed(): string {
  return String(Math.floor(Math.random() * 1_000_000));
}
