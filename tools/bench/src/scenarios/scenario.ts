import type { Adapter } from '../adapters/adapter.js';
import type { Fleet } from '../measure/fleet.js';
import type { Rounds } from '../measure/interleaved.js';
import type { ServerStatistics } from '../measure/server-statistics.js';
import { ratioOf, type Spread, spreadOf } from '../measure/statistics.js';
import type { Column, Goal, Row, ScenarioResult } from '../results.js';

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

/** What is read off a round, and under which head it stands. */
export interface Measure<T> extends Column {
  readonly of: (round: T) => number;
}

/** One line for each adapter. */
export function rowsOf<T>(
  adapters: readonly Adapter[],
  rounds: Rounds<T>,
  measures: readonly Measure<T>[],
): Row[] {
  return adapters.map(({ id, name }) => ({
    name,
    adapter: id,
    values: Object.fromEntries(
      measures.map((measure) => [
        measure.id,
        spreadOf((rounds.get(id) ?? []).map((round) => measure.of(round))),
      ]),
    ),
  }));
}

export function columnsOf<T>(measures: readonly Measure<T>[]): Column[] {
  return measures.map(({ id, title, unit }) => ({ id, title, unit }));
}

/** One adapter in proportion to another. */
export function relation<T>(
  rounds: Rounds<T>,
  { of }: Measure<T>,
  adapter: Adapter,
  other: Adapter,
): Spread {
  const values = ({ id }: Adapter): number[] => (rounds.get(id) ?? []).map(of);
  return ratioOf(values(adapter), values(other));
}

/** The one of them that is best in this measure. */
export function bestOf<T>(
  rounds: Rounds<T>,
  { of }: Measure<T>,
  better: Goal['better'],
  adapters: readonly Adapter[],
): Adapter {
  const medianOf = ({ id }: Adapter): number => spreadOf((rounds.get(id) ?? []).map(of)).median;
  const [best, ...others] = adapters;
  if (best === undefined) throw new Error('There is nothing to compare with');
  return others.reduce((found, adapter) => {
    const isBetter =
      better === 'higher'
        ? medianOf(adapter) > medianOf(found)
        : medianOf(adapter) < medianOf(found);
    return isBetter ? adapter : found;
  }, best);
}
