import { RedisServer } from 'dev-servers';
import { Fleet } from './measure/fleet.js';
import { ServerStatistics } from './measure/server-statistics.js';
import type { ScenarioResult } from './results.js';
import type { Scenario } from './scenarios/scenario.js';

const PACES = { full: { rounds: 9, pace: 1 }, quick: { rounds: 3, pace: 0.3 } } as const;

export interface Findings {
  readonly scenarios: readonly ScenarioResult[];
  /** Whatever was found of two being inside at the same time, with the scenario. */
  readonly violations: readonly string[];
}

/** Runs the scenarios one after the other on a Redis server of their own. */
export async function runBench(
  scenarios: readonly Scenario[],
  mode: keyof typeof PACES,
  tell: (result: ScenarioResult) => void,
): Promise<Findings> {
  const redis = await RedisServer.start();
  const server = new ServerStatistics(redis.url);
  const fleet = new Fleet(redis.url);
  const results: ScenarioResult[] = [];
  const violations: string[] = [];
  try {
    for (const scenario of scenarios) {
      const { id, title, what } = scenario;
      const known = fleet.violations.length;
      const found = await scenario.run({ url: redis.url, fleet, server, ...PACES[mode] });
      const result = { id, title, what, ...found };
      violations.push(...fleet.violations.slice(known).map((text) => `${id}: ${text}`));
      results.push(result);
      tell(result);
    }
  } finally {
    await fleet.end();
    server.close();
    await redis.stop();
  }
  return { scenarios: results, violations };
}
