/** The size of the terminal; undefined if the output goes to a file or to another program. */
export function terminalSize(): { readonly columns: number; readonly rows: number } | undefined {
  const { isTTY, columns, rows } = process.stdout;
  // Some terminals do not tell theirs.
  return isTTY ? { columns: columns || 80, rows: rows || 24 } : undefined;
}
