import type { Spread } from './measure/statistics.js';

export interface Column {
  readonly id: string;
  readonly title: string;
  readonly unit: string;
}

/** One line of a table: what was measured of one adapter, or of one way to do something. */
export interface Row {
  readonly name: string;
  /** The id of the adapter, if the line is about one. */
  readonly adapter?: string;
  readonly values: Readonly<Record<string, Spread>>;
}

/** A number that this library is to reach. They are ratios to others in the same run wherever there is one. */
export interface Goal {
  readonly id: string;
  readonly text: string;
  readonly better: 'higher' | 'lower';
  readonly aim: number;
  /** For numbers close to nothing: whether they are met is all that counts, and how they change is noise. */
  readonly isLimit?: boolean;
  readonly value: Spread;
}

export interface ScenarioResult {
  readonly id: string;
  readonly title: string;
  /** What the numbers mean. */
  readonly what: string;
  readonly columns: readonly Column[];
  readonly rows: readonly Row[];
  readonly goals: readonly Goal[];
}

export interface Machine {
  readonly cores: number;
  readonly processor: string;
  readonly memoryGb: number;
  /** How many programs were using a core on average in the minute before the run. */
  readonly load: number;
  readonly node: string;
  readonly redis: string;
  readonly ioredis: string;
}

/** Everything that a run has found out, as it is kept in a file. */
export interface Results {
  readonly version: string;
  readonly date: string;
  readonly mode: 'full' | 'quick';
  readonly machine: Machine;
  readonly adapters: readonly { readonly name: string; readonly settings: string }[];
  readonly scenarios: readonly ScenarioResult[];
  readonly violations: readonly string[];
}

export function isMet({ better, aim, value: { median } }: Goal): boolean {
  return better === 'higher' ? median >= aim : median <= aim;
}
