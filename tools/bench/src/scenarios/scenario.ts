import type { Fleet } from '../measure/fleet.js';
import type { ServerStatistics } from '../measure/server-statistics.js';
import type { Goal, ScenarioResult } from '../results.js';

/** What a scenario works with. */
export interface Stage {
  readonly url: string;
  readonly fleet: Fleet;
  readonly server: ServerStatistics;
  /** How many rounds count. */
  readonly rounds: number;
  /** Stretches or shortens the time that a scenario gives to a round. */
  readonly pace: number;
}

export interface Scenario {
  readonly id: string;
  readonly title: string;
  readonly what: string;
  /** Whether the quick mode runs it, too. */
  readonly isQuick: boolean;
  run(stage: Stage): Promise<Pick<ScenarioResult, 'columns' | 'rows' | 'goals'>>;
}

export type Aim = Pick<Goal, 'better' | 'aim' | 'isLimit'>;

export function atLeast(aim: number): Aim {
  return { better: 'higher', aim };
}

export function atMost(aim: number): Aim {
  return { better: 'lower', aim };
}

/** For numbers close to nothing. */
export function limit(aim: number): Aim {
  return { better: 'lower', aim, isLimit: true };
}
