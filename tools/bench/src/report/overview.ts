import type { Results, Row } from '../results.js';
import { inDigits } from './format.js';

/** The scenarios that show when a lock of ours is faster than others, and when it is not. */
const SITUATIONS = [
  { id: 'sequence', text: 'one caller, nobody else wants the key' },
  { id: 'many-keys', text: '64 callers of one process, a key each' },
  { id: 'one-process', text: '32 callers of one process, one key' },
  { id: 'processes', text: '32 callers of 4 processes, one key' },
  { id: 'work-inside', text: 'the same with 5 ms of work' },
] as const;

/**
 * What a lock reaches of the rate of bare `SET NX PX` with a checked delete.
 * @returns one line for each situation that was measured
 */
export function againstBare({ scenarios }: Pick<Results, 'scenarios'>): string[][] {
  return SITUATIONS.flatMap(({ id, text }) => {
    const rows = scenarios.find((scenario) => scenario.id === id)?.rows ?? [];
    const rateOf = (wanted: string): number | undefined =>
      rows.find(({ adapter }) => adapter === wanted)?.values['rate']?.median;
    const [ours, bare] = [rateOf('ours'), rateOf('raw')];
    return ours === undefined || bare === undefined ? [] : [[text, inDigits(ours / bare)]];
  });
}

/** Rates and waits of ours, and of the best other library. @returns one line for each situation that was measured */
export function overviewOf({ scenarios }: Pick<Results, 'scenarios'>): string[][] {
  return SITUATIONS.flatMap(({ id, text }) => {
    const rows = scenarios.find((scenario) => scenario.id === id)?.rows ?? [];
    const ours = rows.filter(({ adapter = '' }) => /^ours(-strict)?$/.test(adapter));
    const peers = rows.filter(({ adapter = 'raw' }) => !/^(raw|ours.*)$/.test(adapter));
    return ours.map((row) => [
      row.adapter === 'ours' ? text : `${text}, with \`localHandovers: 0\``,
      ...['rate', 'p99'].flatMap((column) => [cell(row, column), bestOf(peers, column)]),
    ]);
  });
}

function bestOf(peers: readonly Row[], column: string): string {
  const sign = column === 'rate' ? -1 : 1;
  const of = (row: Row): number => row.values[column]?.median ?? Infinity;
  const [best] = peers
    .filter(({ values }) => column in values)
    .sort((a, b) => sign * (of(a) - of(b)));
  return best === undefined ? '' : `${cell(best, column)} (${best.name})`;
}

function cell({ values }: Row, column: string): string {
  const value = values[column];
  return value === undefined ? '' : inDigits(value.median);
}
