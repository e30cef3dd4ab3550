import { PEERS } from '../adapters/index.js';
import { inStrictOrder, nestjsLocked } from '../adapters/nestjs-locked.js';
import type { Round } from '../measure/fleet.js';
import { interleaved } from '../measure/interleaved.js';
import { spreadOf } from '../measure/statistics.js';
import { FAIRNESS, P99_WAIT, RATE } from './measures.js';
import { columnsOf, type Measure, rowsOf, type Scenario } from './scenario.js';

const ADAPTERS = [...PEERS, nestjsLocked, inStrictOrder];
const CALLERS = { processes: 4, callers: 8 };
const WORK_MS = 5;

interface RoundWithTrip extends Round {
  readonly tripMs: number;
}

/** If a hold cost its work and one round trip, and nothing else. */
const USE: Measure<RoundWithTrip> = {
  id: 'use',
  title: 'of what is possible',
  unit: '',
  of: ({ perSecond, workMs, tripMs }) => perSecond / (1_000 / (workMs + tripMs)),
};
/** If all callers took turns without any loss. */
const QUEUE: Measure<RoundWithTrip> = {
  id: 'queue',
  title: 'p99 wait of 32 turns',
  unit: '',
  of: ({ p99WaitMs, workMs }) => p99WaitMs / (CALLERS.processes * CALLERS.callers * workMs),
};

export const workInside: Scenario = {
  id: 'work-inside',
  title: '4 processes with 8 callers each, one key, 5 ms of work',
  what: 'Possible is one hold after the other, each with the measured time of its work and one round trip. 32 turns is the wait in a queue without losses.',
  isQuick: false,
  async run({ fleet, server, rounds, pace }) {
    const found = await interleaved(ADAPTERS, Math.ceil(rounds / 3), async (adapter, round) => {
      const tripMs = await server.roundTripMs();
      const ms = (round < 0 ? 500 : 2_500) * pace;
      return {
        ...(await fleet.together(adapter, 'work-inside', { ...CALLERS, ms, workMs: WORK_MS })),
        tripMs,
      };
    });
    const measures: Measure<RoundWithTrip>[] = [RATE, P99_WAIT, FAIRNESS, USE, QUEUE];
    const ours = found.get(nestjsLocked.id) ?? [];
    return {
      columns: columnsOf(measures),
      rows: rowsOf(ADAPTERS, found, measures),
      goals: [
        {
          id: 'work-rate',
          text: 'Holds per second of 4 x 8 callers with 5 ms of work inside, relative to what is possible',
          better: 'higher',
          aim: 0.95,
          value: spreadOf(ours.map(USE.of)),
        },
        {
          id: 'work-p99',
          text: 'p99 wait of 4 x 8 callers with 5 ms of work inside, relative to 32 turns',
          better: 'lower',
          aim: 1.3,
          value: spreadOf(ours.map(QUEUE.of)),
        },
      ],
    };
  },
};
