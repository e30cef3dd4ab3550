import { PEERS } from '../adapters/index.js';
import { inStrictOrder, nestjsLocked } from '../adapters/nestjs-locked.js';
import { rawFloor } from '../adapters/raw-floor.js';
import { interleaved } from '../measure/interleaved.js';
import { spreadOf } from '../measure/statistics.js';
import { FAIRNESS, P99_WAIT, RATE } from './measures.js';
import { bestOf, columnsOf, relation, rowsOf, type Scenario } from './scenario.js';

const ADAPTERS = [rawFloor, ...PEERS, nestjsLocked, inStrictOrder];

export const processes: Scenario = {
  id: 'processes',
  title: '4 processes with 8 callers each, one key',
  what: 'No work under the lock. Measures the hand-over between processes. Fairness is Jain’s index over all callers: 1 if all had equally many holds.',
  isQuick: true,
  async run({ fleet, rounds, pace }) {
    const found = await interleaved(ADAPTERS, rounds, (adapter) =>
      fleet.together(adapter, 'processes', { processes: 4, callers: 8, ms: 1_000 * pace }),
    );
    const measures = [RATE, P99_WAIT, FAIRNESS];
    const fastest = bestOf(found, RATE, 'higher', PEERS);
    const promptest = bestOf(found, P99_WAIT, 'lower', PEERS);
    return {
      columns: columnsOf(measures),
      rows: rowsOf(ADAPTERS, found, measures),
      goals: [
        {
          id: 'processes-rate',
          text: `Holds per second of 4 x 8 callers, relative to the best peer (${fastest.name})`,
          better: 'higher',
          aim: 12,
          value: relation(found, RATE, nestjsLocked, fastest),
        },
        {
          id: 'processes-p99',
          text: `p99 wait of 4 x 8 callers, relative to the best peer (${promptest.name})`,
          better: 'lower',
          aim: 0.05,
          value: relation(found, P99_WAIT, nestjsLocked, promptest),
        },
        {
          id: 'processes-fairness',
          text: 'Fairness over 4 x 8 callers',
          better: 'higher',
          aim: 0.99,
          value: spreadOf((found.get(nestjsLocked.id) ?? []).map(FAIRNESS.of)),
        },
        {
          id: 'strict-rate',
          text: `Holds per second of 4 x 8 callers with \`localHandovers: 0\`, relative to the best peer (${fastest.name})`,
          better: 'higher',
          aim: 1,
          value: relation(found, RATE, inStrictOrder, fastest),
        },
        {
          id: 'strict-p99',
          text: `p99 wait of 4 x 8 callers with \`localHandovers: 0\`, relative to the best peer (${promptest.name})`,
          better: 'lower',
          aim: 0.25,
          value: relation(found, P99_WAIT, inStrictOrder, promptest),
        },
      ],
    };
  },
};
