/** The picture of docs/first-lease.md. */
import { type Chart, chartSvg } from '../report/chart-svg.js';
import { CONDITIONS, WORK } from './conditions.js';
import { lostWithLease } from './rules.js';

const LEASES_S = [3, 4, 5, 7, 10, 15, 20, 30];

const [, REFILL = ''] = Object.keys(WORK);

const CHART: Chart = {
  title: 'Leases that living holders lose',
  xTitle: 'length of the lease, in seconds',
  yTitle: 'lost of a million (log scale)',
  series: Object.keys(CONDITIONS).map((condition, i) => ({
    name: condition,
    isOurs: i === 0,
    points: LEASES_S.map((leaseS) => {
      const lost = lostWithLease(leaseS, REFILL, condition);
      return { x: leaseS, y: { median: lost, low: lost, high: lost } };
    }),
  })),
};

/** By the name of the file, also for a phone. */
export const PICTURES: ReadonlyMap<string, string> = new Map([
  ['lost.svg', chartSvg(CHART)],
  ['lost-narrow.svg', chartSvg(CHART, true)],
]);
