import { namesFrom, wholeNumberFrom } from 'kit';
import { parseArgs } from 'node:util';
import { BROKEN_RULES, type BrokenRule } from './broken-rule.js';
import { SALE_FEATURES, type SaleFeature } from './sale-plan.js';

export interface SalesOptions {
  readonly seed: number;
  /** For both halves together, without and with the fence. If something is broken, there is only the first half. */
  readonly seconds: number;
  readonly processes: number;
  /** The number over all processes. */
  readonly callers: number;
  /** What is left out, to find the cause of a violation. */
  readonly without: ReadonlySet<SaleFeature>;
  /** What is broken on purpose, to see whether the checker notices. */
  readonly broken: readonly BrokenRule[];
}

/** @throws Error that names the option, its value and what is allowed */
export function readSalesOptions(args: string[]): SalesOptions {
  const { values } = parseArgs({
    args,
    options: {
      transactions: { type: 'boolean' },
      seed: { type: 'string', default: String(Date.now() % 1_000_000) },
      seconds: { type: 'string', default: '60' },
      processes: { type: 'string', default: '3' },
      callers: { type: 'string', default: '20' },
      without: { type: 'string' },
      break: { type: 'string', default: '' },
    },
  });
  const broken = [...namesFrom('break', values.break, BROKEN_RULES)];
  return {
    seed: wholeNumberFrom('seed', values.seed, 0),
    seconds: wholeNumberFrom('seconds', values.seconds, 2),
    processes: wholeNumberFrom('processes', values.processes, 1),
    callers: wholeNumberFrom('callers', values.callers, 1),
    // One cause at a time, unless the cause is to meet something in particular.
    without:
      broken.length > 0 && values.without === undefined
        ? new Set(SALE_FEATURES)
        : namesFrom('without', values.without ?? '', SALE_FEATURES),
    broken,
  };
}
