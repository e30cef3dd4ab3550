import { textTable } from 'kit';

const COLUMN_WIDTH = 12;

export type Row<T> = readonly [label: string, show: (column: T) => string];

/** One column for each item: its heads, then its rows between horizontal rules. */
export function table<T>(
  items: readonly T[],
  heads: readonly ((column: T) => string)[],
  rows: readonly Row<T>[],
): string {
  const cells = [...heads.map((show): Row<T> => ['', show]), ...rows].map(([label, show]) => [
    label,
    ...items.map((item) => show(item).padStart(COLUMN_WIDTH)),
  ]);
  const lines = textTable(cells, '  ').split('\n');
  const rule = '-'.repeat(lines[0]?.length ?? 0);
  return [...lines.slice(0, heads.length), rule, ...lines.slice(heads.length), rule].join('\n');
}

export function whole(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}
