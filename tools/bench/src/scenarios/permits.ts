/** What it costs that several hold a key at once, and what it gives. */
import { PERMITS, SEGMENTS } from '../adapters/adapter.js';
import { nestjsLocked } from '../adapters/nestjs-locked.js';
import { redisSemaphore } from '../adapters/peers.js';
import { contest, goal } from './contest.js';
import { FAIRNESS, P99_WAIT, RATE } from './measures.js';
import { atLeast, atMost } from './scenario.js';

const CROWD = { processes: 4, callers: 8 };
const OF_PERMITS = `of 4 x 8 callers, ${PERMITS} of them at once`;

export const permits = contest({
  id: 'permits',
  title: `4 processes with 8 callers each, ${PERMITS} permits of one key, 2 ms of work`,
  what: 'Of the other libraries, one has semaphores on Redis. Fairness is Jain’s index over all callers.',
  isQuick: false,
  contestants: [redisSemaphore, nestjsLocked],
  measures: [RATE, P99_WAIT, FAIRNESS],
  share: 1 / 3,
  play: ({ fleet, pace }, adapter, isWarmUp) =>
    fleet.together(adapter, 'permits', {
      ...CROWD,
      ms: (isWarmUp ? 500 : 2_000) * pace,
      workMs: 2,
      form: 'permits',
      limit: PERMITS,
    }),
  goals: [
    goal('permits-rate', `Holds per second ${OF_PERMITS}`, RATE, atLeast(1), {
      to: redisSemaphore,
    }),
    goal('permits-p99', `p99 wait ${OF_PERMITS}`, P99_WAIT, atMost(0.5), { to: redisSemaphore }),
    goal('permits-fairness', `Fairness ${OF_PERMITS}`, FAIRNESS, atLeast(0.99)),
  ],
});

const oneLock = { id: 'one-lock', name: 'one lock', form: 'withLock', limit: 1 };
const inSegments = {
  id: 'segments',
  name: `${SEGMENTS} segments, each with its \`lock.slot\``,
  form: 'segments',
  limit: SEGMENTS,
};

export const segments = contest({
  id: 'segments',
  title: 'A hot key as one lock, and in ten segments',
  what: '4 processes with 8 callers each sell one product. Each sale works for 5 ms, as a short transaction does.',
  isQuick: false,
  contestants: [oneLock, inSegments],
  measures: [RATE, P99_WAIT, FAIRNESS],
  share: 1 / 3,
  play: ({ fleet, pace }, { form, limit }, isWarmUp) =>
    fleet.together(nestjsLocked, `segments-${form}`, {
      ...CROWD,
      ms: (isWarmUp ? 500 : 2_000) * pace,
      workMs: 5,
      form,
      limit,
    }),
  goals: [
    goal('segments-rate', 'Sales per second in ten segments', RATE, atLeast(5), {
      by: inSegments,
      to: oneLock,
    }),
  ],
});
