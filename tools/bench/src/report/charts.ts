import type { Results, Row } from '../results.js';
import { type Chart, chartSvg, type Series } from './chart-svg.js';

/** The two pictures about contending processes. @returns nothing if the run has not measured them */
export function chartsOf({ scenarios }: Pick<Results, 'scenarios'>): Map<string, string> {
  const scaling = scenarios.find(({ id }) => id === 'scaling');
  if (scaling === undefined) return new Map();
  const chart = (column: string, title: string, yTitle: string): string => {
    const axes: Omit<Chart, 'series'> = { title, yTitle, xTitle: 'processes, 8 callers each' };
    return chartSvg({ ...axes, series: seriesOf(scaling.rows, column) });
  };
  return new Map([
    ['throughput.svg', chart('rate', 'How often one key is held', 'holds per second (log scale)')],
    ['waits.svg', chart('p99', 'How long 99 of 100 callers wait at most', 'ms (log scale)')],
  ]);
}

function seriesOf(rows: readonly Row[], column: string): Series[] {
  const names = [...new Set(rows.map(({ name }) => name))];
  return names.map((name) => {
    const own = rows.filter((row) => row.name === name);
    return {
      name,
      isOurs: own.some(({ adapter = '' }) => adapter.startsWith('ours')),
      points: own.flatMap(({ values }) => {
        const [x, y] = [values['processes'], values[column]];
        return x === undefined || y === undefined ? [] : [{ x: x.median, y }];
      }),
    };
  });
}
