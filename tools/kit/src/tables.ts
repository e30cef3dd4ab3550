/** Rows in columns for a terminal: the first column to the left, the others to the right. */
export function textTable(rows: readonly (readonly string[])[], gap = '   '): string {
  const widths = (rows[0] ?? []).map((_, n) => Math.max(...rows.map((row) => row[n]?.length ?? 0)));
  return rows
    .map((row) =>
      row
        .map((cell, n) => (n === 0 ? cell.padEnd(widths[n] ?? 0) : cell.padStart(widths[n] ?? 0)))
        .join(gap),
    )
    .join('\n');
}

/** A table of Markdown. Its cells are Markdown of one line each. */
export function markdownTable(
  head: readonly string[],
  rows: readonly (readonly string[])[],
): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}
