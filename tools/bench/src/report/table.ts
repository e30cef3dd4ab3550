import { textTable } from 'kit';
import type { Spread } from '../measure/statistics.js';
import { type Column, type Goal, isMet, type Row, type ScenarioResult } from '../results.js';
import { inDigits, withSpread } from './format.js';

/** What a scenario has found, for a terminal. */
export function scenarioTable({ id, title, columns, rows, goals }: ScenarioResult): string {
  const table = textTable([headOf(columns), ...rows.map((row) => cellsOf(columns, row))]);
  return [`\n${id}: ${title}`, table.replaceAll(/^/gm, '  '), ...goals.map(goalLine)].join('\n');
}

/** The first row of a table: what its columns show. */
export function headOf(columns: readonly Column[]): string[] {
  return ['', ...columns.map(({ title, unit }) => (unit ? `${title}, ${unit}` : title))];
}

/** What has not been measured stays empty. */
export function cellsOf(columns: readonly Column[], { name, values }: Row): string[] {
  const cell = (value: Spread | undefined): string =>
    value === undefined ? '' : withSpread(value);
  return [name, ...columns.map(({ id }) => cell(values[id]))];
}

function goalLine(goal: Goal): string {
  const { text, better, aim, value } = goal;
  const bound = better === 'higher' ? 'at least' : 'at most';
  const verdict = isMet(goal) ? 'met ' : 'MISSED';
  return `  ${verdict.padEnd(6)} ${text}: ${withSpread(value)}, goal ${bound} ${inDigits(aim)}`;
}
