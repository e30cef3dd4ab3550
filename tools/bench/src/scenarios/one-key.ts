/** What a lock costs that many want. */
import { inStrictOrder, nestjsLocked } from '../adapters/nestjs-locked.js';
import { PEERS } from '../adapters/peers.js';
import { rawFloor } from '../adapters/raw-floor.js';
import type { Round } from '../measure/fleet.js';
import type { HandOvers } from '../measure/hand-overs.js';
import { spreadOf } from '../measure/statistics.js';
import type { Row } from '../results.js';
import { columnsOf, contest, goal, interleaved, measure, rowsOf } from './contest.js';
import { type CostedRound, FAIRNESS, P99_WAIT, RATE } from './measures.js';
import { atLeast, atMost, type Scenario } from './scenario.js';

const COMMANDS = measure(
  'commands',
  'commands per hold',
  '',
  ({ commands, holds }: CostedRound) => commands / holds,
);
const OF_ONE = 'of 32 callers of one process';

export const oneProcess = contest({
  id: 'one-process',
  title: '32 callers of one process, one key',
  what: 'No work under the lock. Measures the hand-over between callers.',
  isQuick: true,
  contestants: [rawFloor, ...PEERS, nestjsLocked],
  measures: [RATE, P99_WAIT, COMMANDS],
  play: ({ fleet, server, pace }, adapter) =>
    server.spentOn(`one-process of ${adapter.id}`, () =>
      fleet.together(adapter, 'one-process', { processes: 1, callers: 32, ms: 500 * pace }),
    ),
  goals: [
    goal('one-process-rate', `Holds per second ${OF_ONE}`, RATE, atLeast(60), { to: PEERS }),
    goal('one-process-p99', `p99 wait ${OF_ONE}`, P99_WAIT, atMost(0.01), { to: PEERS }),
    goal('one-process-commands', `Redis commands per hold ${OF_ONE}`, COMMANDS, atMost(0.01)),
  ],
});

const OF_ALL = 'of 4 x 8 callers';
const IN_STRICT_ORDER = `${OF_ALL} with \`localHandovers: 0\``;
const STRICT_TO_PEERS = { by: inStrictOrder, to: PEERS };

export const processes = contest({
  id: 'processes',
  title: '4 processes with 8 callers each, one key',
  what: 'No work under the lock. Measures the hand-over between processes. Fairness is Jain’s index over all callers: 1 if all had equally many holds.',
  isQuick: true,
  contestants: [rawFloor, ...PEERS, nestjsLocked, inStrictOrder],
  measures: [RATE, P99_WAIT, FAIRNESS],
  play: ({ fleet, pace }, adapter) =>
    fleet.together(adapter, 'processes', { processes: 4, callers: 8, ms: 1_000 * pace }),
  goals: [
    goal('processes-rate', `Holds per second ${OF_ALL}`, RATE, atLeast(12), { to: PEERS }),
    goal('processes-p99', `p99 wait ${OF_ALL}`, P99_WAIT, atMost(0.05), { to: PEERS }),
    goal('processes-fairness', 'Fairness over 4 x 8 callers', FAIRNESS, atLeast(0.99)),
    goal('strict-rate', `Holds per second ${IN_STRICT_ORDER}`, RATE, atLeast(1), STRICT_TO_PEERS),
    goal('strict-p99', `p99 wait ${IN_STRICT_ORDER}`, P99_WAIT, atMost(0.25), STRICT_TO_PEERS),
  ],
});

type RoundWithTrip = Round & { readonly tripMs: number };

/** If a hold cost its work and one round trip, and nothing else. */
const USE = measure(
  'use',
  'of what is possible',
  '',
  ({ perSecond, workMs, tripMs }: RoundWithTrip) => perSecond / (1_000 / (workMs + tripMs)),
);
/** If all callers took turns without any loss. */
const QUEUE = measure(
  'queue',
  'p99 wait of 32 turns',
  '',
  ({ p99WaitMs, workMs }: RoundWithTrip) => p99WaitMs / (32 * workMs),
);
const WITH_WORK = `${OF_ALL} with 5 ms of work inside`;

export const workInside = contest({
  id: 'work-inside',
  title: '4 processes with 8 callers each, one key, 5 ms of work',
  what: 'Possible is one hold after the other, each with the measured time of its work and one round trip. 32 turns is the wait in a queue without losses.',
  isQuick: false,
  contestants: [...PEERS, nestjsLocked, inStrictOrder],
  measures: [RATE, P99_WAIT, FAIRNESS, USE, QUEUE],
  share: 1 / 3,
  async play({ fleet, server, pace }, adapter, isWarmUp) {
    const tripMs = await server.roundTripMs();
    const round = { processes: 4, callers: 8, ms: (isWarmUp ? 500 : 2_500) * pace, workMs: 5 };
    return { ...(await fleet.together(adapter, 'work-inside', round)), tripMs };
  },
  goals: [
    goal(
      'work-rate',
      `Holds per second ${WITH_WORK}, relative to what is possible`,
      USE,
      atLeast(0.95),
    ),
    goal('work-p99', `p99 wait ${WITH_WORK}, relative to 32 turns`, QUEUE, atMost(1.3)),
  ],
});

/** What a hand-over took, and what a bare message took right before. */
type RoundWithMessage = Round & HandOvers & { readonly messageMs: number };

const TURNS = { processes: 2, callers: 1, workMs: 2 };
const HAND_OVER = measure('hand-over', 'p50', 'ms', ({ p50Ms }: RoundWithMessage) => p50Ms);
const SLOW_HAND_OVER = measure('p99', 'p99', 'ms', ({ p99Ms }: RoundWithMessage) => p99Ms);
const MESSAGE = measure('message', 'a message', 'ms', (round: RoundWithMessage) => round.messageMs);
const OF_MESSAGE = measure(
  'p50-of-message',
  'p50, in messages',
  '',
  ({ p50Ms, messageMs }: RoundWithMessage) => p50Ms / messageMs,
);
const SLOW_OF_MESSAGE = measure(
  'p99-of-message',
  'p99, in messages',
  '',
  ({ p99Ms, messageMs }: RoundWithMessage) => p99Ms / messageMs,
);
const AS_MESSAGE = 'of a hand-over between two processes, relative to the p50 of a bare message';

export const handOver = contest({
  id: 'hand-over',
  title: 'A hand-over between two processes',
  what: 'Two processes with a caller each take turns, with 2 ms of work. From the end of the work until the other process is inside. A bare message is published by one process and heard by another.',
  isQuick: true,
  contestants: [...PEERS, nestjsLocked],
  measures: [HAND_OVER, SLOW_HAND_OVER, MESSAGE, OF_MESSAGE, SLOW_OF_MESSAGE],
  share: 1 / 3,
  async play({ fleet, pace }, adapter, isWarmUp) {
    const message = { count: Math.ceil(200 * pace), everyMs: TURNS.workMs };
    const { p50Ms: messageMs } = await fleet.messages(message);
    const ms = (isWarmUp ? 300 : 1_500) * pace;
    return { ...(await fleet.together(adapter, 'hand-over', { ...TURNS, ms })), messageMs };
  },
  goals: [
    goal('hand-over-p50', `p50 ${AS_MESSAGE}`, OF_MESSAGE, atMost(1.5)),
    goal('hand-over-p99', `p99 ${AS_MESSAGE}`, SLOW_OF_MESSAGE, atMost(3)),
  ],
});

const SCALED = [...PEERS, nestjsLocked, inStrictOrder];

export const scaling: Scenario = {
  id: 'scaling',
  title: '1, 2, 4 and 8 processes with 8 callers each, one key',
  what: 'The figures of the charts. Both cores are busy from two processes on.',
  isQuick: false,
  async run({ fleet, rounds, pace }) {
    const rows: Row[] = [];
    for (const processes of [1, 2, 4, 8]) {
      const found = await interleaved(SCALED, Math.ceil(rounds / 3), (adapter, round) =>
        fleet.together(adapter, 'scaling', {
          processes,
          callers: 8,
          ms: (round < 0 ? 200 : 800) * pace,
        }),
      );
      for (const { values, ...row } of rowsOf(SCALED, found, [RATE, P99_WAIT])) {
        rows.push({ ...row, values: { processes: spreadOf([processes]), ...values } });
      }
    }
    return {
      columns: [{ id: 'processes', title: 'processes', unit: '' }, ...columnsOf([RATE, P99_WAIT])],
      rows,
      goals: [],
    };
  },
};
