import { type Row, table, whole } from '../table.js';
import type { Trial } from './trial.js';
import { headsOf } from './variant.js';

const HEADS: readonly ((trial: Trial) => string)[] = [
  ({ variant }) => headsOf(variant)[0],
  ({ variant }) => headsOf(variant)[1],
];

/** A table with one column for each variant. */
export function trapTable(trials: readonly Trial[]): string {
  const codes = [...new Set(trials.flatMap(({ errorCodes }) => errorCodes))].sort();
  const rows: readonly Row<Trial>[] = [
    ['callers', ({ callers }) => whole(callers)],
    ['  succeeded', ({ succeeded }) => whole(succeeded)],
    ...codes.map((code): Row<Trial> => [`  ${code}`, (trial) => whole(trial.failed(code))]),
    ['restarts', ({ restarts }) => whole(restarts)],
    ['unrelated query, worst (ms)', ({ worstUnrelatedMs }) => whole(worstUnrelatedMs)],
    ['final stock', ({ books }) => whole(books.left)],
    ['  the truth', ({ truth }) => whole(truth)],
    ['stock', ({ isExact }) => (isExact ? 'exact' : 'WRONG')],
  ];
  return table(trials, HEADS, rows);
}

/** What the words in the table mean. */
export function trapLegend(): string {
  return [
    'wrong nesting: @Transactional outside, @Locked inside. plain adapter: not wrapped by lockAwareAdapter.',
    'no connection: the pool had none within its time-out.',
    'unrelated query: one that needs neither the lock nor the product, on the same pool.',
    'the truth: the stock at the start, minus the pieces answered as sold.',
  ].join('\n');
}
