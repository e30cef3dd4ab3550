import { PEERS } from '../adapters/index.js';
import { inStrictOrder, nestjsLocked } from '../adapters/nestjs-locked.js';
import { interleaved } from '../measure/interleaved.js';
import { spreadOf } from '../measure/statistics.js';
import type { Row } from '../results.js';
import { P99_WAIT, RATE } from './measures.js';
import { columnsOf, rowsOf, type Scenario } from './scenario.js';

const ADAPTERS = [...PEERS, nestjsLocked, inStrictOrder];
const PROCESSES = [1, 2, 4, 8];

export const scaling: Scenario = {
  id: 'scaling',
  title: '1, 2, 4 and 8 processes with 8 callers each, one key',
  what: 'The figures of the charts. Both cores are busy from two processes on.',
  isQuick: false,
  async run({ fleet, rounds, pace }) {
    const rows: Row[] = [];
    for (const processes of PROCESSES) {
      const found = await interleaved(ADAPTERS, Math.ceil(rounds / 3), (adapter, round) =>
        fleet.together(adapter, 'scaling', {
          processes,
          callers: 8,
          ms: (round < 0 ? 200 : 800) * pace,
        }),
      );
      rows.push(
        ...rowsOf(ADAPTERS, found, [RATE, P99_WAIT]).map(({ values, ...row }) => ({
          ...row,
          values: { processes: spreadOf([processes]), ...values },
        })),
      );
    }
    return {
      columns: [{ id: 'processes', title: 'processes', unit: '' }, ...columnsOf([RATE, P99_WAIT])],
      rows,
      goals: [],
    };
  },
};
