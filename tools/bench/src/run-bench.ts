import { RedisServer } from 'dev-servers';
import { ADAPTERS } from './adapters/index.js';
import { describeMachine, libraryVersion } from './machine.js';
import { Fleet } from './measure/fleet.js';
import { ServerStatistics } from './measure/server-statistics.js';
import type { Machine, Results, ScenarioResult } from './results.js';
import type { Scenario } from './scenarios/scenario.js';

const PACES = { full: { rounds: 7, pace: 1 }, quick: { rounds: 3, pace: 0.25 } } as const;

/** Enough for the compiler of V8; very short rounds are a trial of the bench itself. */
const WARM_UP_MS = 700;
const WARM_UP_OF_PACE_MS = 2_500;

export interface RunOptions {
  readonly mode: Results['mode'];
  /** Overrides those of the mode. */
  readonly rounds?: number | undefined;
  readonly pace?: number | undefined;
  /** Called before the first scenario. */
  readonly begin?: (machine: Machine) => void;
  /** Called whenever a scenario is done. */
  readonly tell: (result: ScenarioResult) => void;
}

/** Runs the scenarios one after the other on a Redis server of their own. */
export async function runBench(
  scenarios: readonly Scenario[],
  { mode, rounds = PACES[mode].rounds, pace = PACES[mode].pace, begin, tell }: RunOptions,
): Promise<Results> {
  const redis = await RedisServer.start();
  const server = new ServerStatistics(redis.url);
  const fleet = new Fleet(redis.url, Math.min(WARM_UP_MS, WARM_UP_OF_PACE_MS * pace));
  const results: ScenarioResult[] = [];
  const violations: string[] = [];
  try {
    const machine = describeMachine(await server.version());
    begin?.(machine);
    for (const scenario of scenarios) {
      const { id, title, what } = scenario;
      const known = fleet.violations.length;
      const found = await scenario.run({ url: redis.url, fleet, server, rounds, pace });
      const result = { id, title, what, ...found };
      violations.push(...fleet.violations.slice(known).map((text) => `${id}: ${text}`));
      results.push(result);
      tell(result);
    }
    return {
      version: libraryVersion(),
      date: new Date().toISOString().slice(0, 10),
      mode,
      machine,
      adapters: ADAPTERS.map(({ name, settings }) => ({ name, settings })),
      scenarios: results,
      violations,
    };
  } finally {
    await fleet.end();
    server.close();
    await redis.stop();
  }
}
