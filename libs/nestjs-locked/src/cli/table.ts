import { cutTo, widthOf } from './shown-text.js';

const GAP = '  ';

/** A cut column is never narrower than this. */
const NARROWEST = 8;

/** Where nothing is cut, a longer text moves the rest of its row. */
const WIDEST = 60;

/**
 * Texts in columns, each row on one line.
 *
 * @param columns of the terminal, which no line exceeds; Infinity: nothing is cut
 * @param cut the indexes of the columns that are cut so that the others fit
 * @returns the lines, that of the names first
 */
export function tableOf(
  names: readonly string[],
  rows: readonly (readonly string[])[],
  columns: number,
  cut: readonly number[],
): string[] {
  const lines = [names, ...rows];
  const widths = names.map((_, i) =>
    lines.reduce((most, line) => Math.max(most, widthOf(line[i] ?? '')), 0),
  );
  if (columns === Infinity) {
    return lines.map((line) =>
      joined(line, (cell, i) => padded(cell, Math.min(WIDEST, widths[i] ?? 0))),
    );
  }
  shrink(widths, columns - GAP.length * (names.length - 1), cut);
  return lines.map((line) => {
    const text = joined(line, (cell, i) => padded(cutTo(widths[i] ?? 0, cell), widths[i] ?? 0));
    return cutTo(columns, text);
  });
}

function joined(line: readonly string[], shown: (cell: string, i: number) => string): string {
  return line.map(shown).join(GAP).trimEnd();
}

/** Makes the widest of the columns that may be cut narrower, until all fit. */
function shrink(widths: number[], most: number, cut: readonly number[]): void {
  const widthAt = (i: number): number => widths[i] as number;
  for (let total = widths.reduce((sum, width) => sum + width, 0); total > most; total--) {
    const widest = cut.reduce((a, b) => (widthAt(b) > widthAt(a) ? b : a));
    if (widthAt(widest) <= NARROWEST) return;
    widths[widest] = widthAt(widest) - 1;
  }
}

function padded(text: string, width: number): string {
  return text + ' '.repeat(Math.max(0, width - widthOf(text)));
}
