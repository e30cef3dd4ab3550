import type { PackageFacts } from './package-facts.js';
import type { Outcome, Scenario } from './scenario.js';

export interface NamedScenario extends Scenario {
  readonly name: string;
}

export interface SideResult {
  /** The name of the package. */
  readonly library: string;
  readonly version: string;
  readonly settings: string;
  readonly note?: string | undefined;
  readonly outcome: Outcome;
}

export interface ScenarioResult {
  readonly name: string;
  readonly title: string;
  readonly workload: string;
  readonly peers: readonly SideResult[];
  readonly ours: SideResult;
}

/** One run of all scenarios. */
export interface Results {
  readonly date: string;
  readonly node: string;
  readonly redis: string;
  readonly nest: string;
  readonly scenarios: readonly ScenarioResult[];
  /** Ours first, then the peers by their names. */
  readonly packages: readonly PackageFacts[];
}
