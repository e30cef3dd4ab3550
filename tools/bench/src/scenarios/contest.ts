import type { Adapter } from '../adapters/adapter.js';
import { nestjsLocked } from '../adapters/nestjs-locked.js';
import { ratioOf, spreadOf, spreadsOf } from '../measure/statistics.js';
import type { Column, Goal, Row } from '../results.js';
import type { Aim, Scenario, Stage } from './scenario.js';

/** Who takes part: an adapter, or one way to use it. */
export type Contestant = Pick<Adapter, 'id' | 'name'>;

/** What is read off a round, and under which head it stands. */
export interface Measure<Round> extends Column {
  readonly of: (round: Round) => number;
}

export function measure<Round>(
  id: string,
  title: string,
  unit: string,
  of: (round: Round) => number,
): Measure<Round> {
  return { id, title, unit, of };
}

interface ContestGoal<Round> extends Aim {
  readonly id: string;
  readonly text: string;
  readonly of: Measure<Round>;
  /** Whose number it is. */
  readonly by?: Contestant;
  /** What it is relative to: another contestant, or the best of several. */
  readonly to?: Contestant | readonly Contestant[];
}

/** @param who by default, our adapter with the defaults, in numbers of its own */
export function goal<Round>(
  id: string,
  text: string,
  of: Measure<Round>,
  aim: Aim,
  who: Pick<ContestGoal<Round>, 'by' | 'to'> = {},
): ContestGoal<Round> {
  return { id, text, of, ...aim, ...who };
}

interface Contest<Who extends Contestant, Round> extends Omit<Scenario, 'run'> {
  readonly contestants: readonly Who[];
  readonly measures: readonly Measure<Round>[];
  readonly goals: readonly ContestGoal<Round>[];
  /** For long rounds: the share of the rounds that is enough. Default: 1. */
  readonly share?: number;
  readonly play: (stage: Stage, who: Who, isWarmUp: boolean) => Promise<Round>;
}

/** A scenario with one row for each contestant, whose goals are ratios of what is measured. */
export function contest<Who extends Contestant, Round>({
  contestants,
  measures,
  goals,
  share = 1,
  play,
  ...names
}: Contest<Who, Round>): Scenario {
  return {
    ...names,
    async run(stage) {
      const rounds = await interleaved(contestants, Math.ceil(stage.rounds * share), (who, round) =>
        play(stage, who, round < 0),
      );
      return {
        columns: columnsOf(measures),
        rows: rowsOf(contestants, rounds, measures),
        goals: goals.map((goal) => outcomeOf(goal, rounds)),
      };
    },
  };
}

/** Rounds by the id of their contestant. */
export type Rounds<Round> = ReadonlyMap<string, readonly Round[]>;

/**
 * A short round of each contestant, then the next round, so that a machine that becomes slower does so for all of them.
 * Every second round goes through them backwards. The first one warms up and does not count.
 */
export async function interleaved<Who extends Contestant, Round>(
  contestants: readonly Who[],
  rounds: number,
  run: (who: Who, round: number) => Promise<Round>,
): Promise<Rounds<Round>> {
  const results = new Map<string, Round[]>(contestants.map(({ id }) => [id, []]));
  for (let round = -1; round < rounds; round += 1) {
    for (const who of round % 2 === 0 ? contestants : contestants.toReversed()) {
      const result = await run(who, round);
      if (round >= 0) results.get(who.id)?.push(result);
    }
  }
  return results;
}

/** One line for each contestant. */
export function rowsOf<Round>(
  contestants: readonly Contestant[],
  rounds: Rounds<Round>,
  measures: readonly Measure<Round>[],
): Row[] {
  return contestants.map((who) => ({
    name: who.name,
    ...('open' in who && { adapter: who.id }),
    values: spreadsOf(
      Object.fromEntries(measures.map((measure) => [measure.id, numbersOf(who, measure, rounds)])),
    ),
  }));
}

export function columnsOf<Round>(measures: readonly Measure<Round>[]): Column[] {
  return measures.map(({ id, title, unit }) => ({ id, title, unit }));
}

function outcomeOf<Round>(goal: ContestGoal<Round>, rounds: Rounds<Round>): Goal {
  const { text, of, by = nestjsLocked, to, ...rest } = goal;
  const own = numbersOf(by, of, rounds);
  if (to === undefined) return { ...rest, text, value: spreadOf(own) };
  const other = 'id' in to ? to : bestOf(to, goal, rounds);
  const otherName = 'id' in to ? `the ${to.name}` : `the best peer (${other.name})`;
  const value = ratioOf(own, numbersOf(other, of, rounds));
  return { ...rest, text: `${text}, relative to ${otherName}`, value };
}

function bestOf<Round>(
  candidates: readonly Contestant[],
  { of, better }: Pick<ContestGoal<Round>, 'of' | 'better'>,
  rounds: Rounds<Round>,
): Contestant {
  const sign = better === 'higher' ? -1 : 1;
  const medianOf = (who: Contestant): number => sign * spreadOf(numbersOf(who, of, rounds)).median;
  const [best] = [...candidates].sort((a, b) => medianOf(a) - medianOf(b));
  if (best === undefined) throw new Error('There is nothing to compare with');
  return best;
}

function numbersOf<Round>({ id }: Contestant, { of }: Measure<Round>, rounds: Rounds<Round>) {
  return (rounds.get(id) ?? []).map(of);
}
