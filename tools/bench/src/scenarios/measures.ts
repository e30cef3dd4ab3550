import type { Round } from '../measure/fleet.js';
import type { Spent } from '../measure/server-statistics.js';
import { measure } from './contest.js';

export const RATE = measure('rate', 'holds per second', '', (round: Round) => round.perSecond);
export const P99_WAIT = measure('p99', 'p99 wait', 'ms', (round: Round) => round.p99WaitMs);
export const FAIRNESS = measure('fairness', 'fairness', '', (round: Round) => round.fairness);
export const CLIENT_CPU = measure('client-cpu', 'client CPU', 'µs', (round: Round) => round.cpuUs);

/** Of a round whose cost was looked up at the server. */
export type CostedRound = Round & Spent;
