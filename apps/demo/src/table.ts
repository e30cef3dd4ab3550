const LABEL_WIDTH = 28;
const COLUMN_WIDTH = 14;

export type Row<T> = readonly [label: string, show: (column: T) => string];

/** One column for each item: its heads, then its rows between horizontal rules. */
export function table<T>(
  items: readonly T[],
  heads: readonly ((column: T) => string)[],
  rows: readonly Row<T>[],
): string {
  const rule = '-'.repeat(LABEL_WIDTH + COLUMN_WIDTH * items.length);
  return [
    ...heads.map((show) => line('', show)),
    rule,
    ...rows.map(([label, show]) => line(label, show)),
    rule,
  ].join('\n');

  function line(label: string, show: (column: T) => string): string {
    return (
      label.padEnd(LABEL_WIDTH) + items.map((item) => show(item).padStart(COLUMN_WIDTH)).join('')
    );
  }
}

export function whole(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}
