import type { Results, Row } from '../results.js';
import { type Chart, chartSvg, type Series } from './chart-svg.js';

/** The pictures about contending processes, each also for a phone. @returns nothing if the run has not measured them */
export function chartsOf({ scenarios }: Pick<Results, 'scenarios'>): Map<string, string> {
  const scaling = scenarios.find(({ id }) => id === 'scaling');
  if (scaling === undefined) return new Map();
  const both = (name: string, column: string, title: string, yTitle: string) => {
    const axes: Omit<Chart, 'series'> = { title, yTitle, xTitle: 'processes, 8 callers each' };
    const chart: Chart = { ...axes, series: seriesOf(scaling.rows, column) };
    return [
      [`${name}.svg`, chartSvg(chart)],
      [`${name}-narrow.svg`, chartSvg(chart, true)],
    ] as const;
  };
  return new Map([
    ...both('throughput', 'rate', 'How often one key is held', 'holds per second (log scale)'),
    ...both('waits', 'p99', 'How long 99 of 100 callers wait at most', 'ms (log scale)'),
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
