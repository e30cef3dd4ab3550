import { type Goal, isMet, type ScenarioResult } from '../results.js';
import { inDigits, withSpread } from './format.js';

/** What a scenario has found, for a terminal. */
export function scenarioTable({ id, title, columns, rows, goals }: ScenarioResult): string {
  const head = ['', ...columns.map(({ title, unit }) => (unit ? `${title}, ${unit}` : title))];
  const lines = rows.map(({ name, values }) => [
    name,
    ...columns.map((column) => {
      const value = values[column.id];
      return value === undefined ? '' : withSpread(value);
    }),
  ]);
  return [`\n${id}: ${title}`, inColumns([head, ...lines]), ...goals.map(goalLine)].join('\n');
}

function goalLine(goal: Goal): string {
  const { text, better, aim, value } = goal;
  const bound = better === 'higher' ? 'at least' : 'at most';
  const verdict = isMet(goal) ? 'met ' : 'MISSED';
  return `  ${verdict.padEnd(6)} ${text}: ${withSpread(value)}, goal ${bound} ${inDigits(aim)}`;
}

function inColumns(lines: readonly (readonly string[])[]): string {
  const widths = (lines[0] ?? []).map((_, n) =>
    Math.max(...lines.map((cells) => cells[n]?.length ?? 0)),
  );
  return lines
    .map((cells) =>
      cells.map((cell, n) =>
        n === 0 ? cell.padEnd(widths[n] ?? 0) : cell.padStart(widths[n] ?? 0),
      ),
    )
    .map((cells) => `  ${cells.join('   ')}`)
    .join('\n');
}
