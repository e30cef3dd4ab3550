import type { Round } from '../measure/fleet.js';
import type { Measure } from './scenario.js';

export const RATE: Measure<Round> = {
  id: 'rate',
  title: 'holds per second',
  unit: '',
  of: ({ perSecond }) => perSecond,
};

export const P99_WAIT: Measure<Round> = {
  id: 'p99',
  title: 'p99 wait',
  unit: 'ms',
  of: ({ p99WaitMs }) => p99WaitMs,
};

export const FAIRNESS: Measure<Round> = {
  id: 'fairness',
  title: 'fairness',
  unit: '',
  of: ({ fairness }) => fairness,
};

export const CLIENT_CPU: Measure<Round> = {
  id: 'client-cpu',
  title: 'client CPU',
  unit: 'µs',
  of: ({ cpuUs }) => cpuUs,
};
