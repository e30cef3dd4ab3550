import type { PackageFacts } from './package-facts.js';
import type { Outcome, Scenario } from './scenario.js';

export interface NamedScenario extends Scenario {
  readonly name: string;
}

export interface SideResult {
  /** The name of the package. */
  readonly library: string;
  readonly version: string;
  readonly variant?: string | undefined;
  readonly settings: string;
  readonly note?: string | undefined;
  /** What came out, each time. */
  readonly runs: readonly Outcome[];
}

export interface ScenarioResult {
  readonly name: string;
  readonly title: string;
  readonly workload: string;
  readonly sides: readonly SideResult[];
}

/** One run of all scenarios. */
export interface Results {
  readonly date: string;
  readonly node: string;
  readonly redis: string;
  readonly nest: string;
  /** Those that were played since they were last changed. */
  readonly scenarios: readonly ScenarioResult[];
  /** The names of the others, of which there is no result yet. */
  readonly notPlayed: readonly string[];
  /** Ours first, then the peers by their names. */
  readonly packages: readonly PackageFacts[];
}
