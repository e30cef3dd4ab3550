import { setTimeout as sleep } from 'node:timers/promises';
import { type Accident, ACCIDENTS, SALE, whyNot } from '../accidents.js';
import { deviationOf, isUnsafe } from '../expected.js';
import { STAGES } from '../stages/index.js';
import { isOurs, type Stage } from '../stages/stage.js';
import type { Laboratory } from './laboratory.js';
import { Scene } from './scene.js';
import type { Trial } from './trial.js';

export interface Pair {
  readonly stage: Stage;
  readonly accident: Accident;
}

/** Our processes load Nest, which takes time, so not too many of them may start at once. */
const OURS_AT_ONCE = 2;

/** Many times what the longest trial takes, including the start of its processes. */
const TRIAL_LIMIT_MS = 120_000;

/** The pairs of chosen stages and chosen accidents that can happen. */
export function pairsOf(stages: readonly string[], accidents: readonly string[]): Pair[] {
  return STAGES.filter(({ id }) => stages.includes(id)).flatMap((stage) =>
    ACCIDENTS.filter(
      (accident) => accidents.includes(accident.id) && whyNot(accident, stage) === undefined,
    ).map((accident) => ({ stage, accident })),
  );
}

/** Plays a pair for the nth time. */
export type Play = (pair: Pair, nth: number) => Promise<Trial>;

/**
 * Runs the sales one after the other, because they are measured, and then the accidents, which mostly wait. A trial
 * that did not go as expected is repeated once, alone, because a busy machine may be too slow for it. If it differs
 * again, the difference counts. Of two holders, no repeat says that they were not there, so that difference counts at
 * once.
 */
export async function runTrials(
  pairs: readonly Pair[],
  play: Play,
  atOnce: number,
  say: (text: string) => void,
): Promise<Trial[]> {
  const trials: Trial[] = [];
  const again: Pair[] = [];

  const done = ({ stage: { id, name }, accident }: Pair, trial: Trial): void => {
    const { findings, summary } = trial;
    const details = summary === '' ? '' : ` (${summary})`;
    trials.push(trial);
    say(
      `${trials.length}/${pairs.length}  ${id} ${name}, ${accident.id}: ${findings[0] ?? 'held'}${details}`,
    );
  };
  const run = async (queue: Pair[]): Promise<void> => {
    for (let pair = queue.shift(); pair !== undefined; pair = queue.shift()) {
      const trial = await play(pair, 1).catch((error: Error) => error);
      const why = trial instanceof Error ? trial.message : deviationOf(trial);
      if (!(trial instanceof Error) && (why === undefined || isUnsafe(trial))) done(pair, trial);
      else {
        say(`stage ${pair.stage.id}, ${pair.accident.id} will be repeated alone: ${why}`);
        again.push(pair);
      }
    }
  };

  const isSale = ({ accident }: Pair): boolean => accident === SALE;
  await run(pairs.filter(isSale));
  const accidents = pairs.filter((pair) => !isSale(pair));
  const ours = accidents.filter(({ stage }) => isOurs(stage.id));
  const others = accidents.filter(({ stage }) => !isOurs(stage.id));
  await Promise.all([
    ...Array.from({ length: OURS_AT_ONCE }, () => run(ours)),
    ...Array.from({ length: atOnce }, () => run(others)),
  ]);
  for (const pair of again) done(pair, await play(pair, 2));
  return trials;
}

/** Plays a pair in a laboratory, each time with a product and a key that nobody has used. */
export async function playIn(
  lab: Laboratory,
  { stage, accident }: Pair,
  nth: number,
): Promise<Trial> {
  const scene = new Scene(stage, accident, lab, nth);
  try {
    return await Promise.race([accident.play(scene).then(() => scene.close()), tooLong()]);
  } catch (error) {
    const seen = await scene.close().catch(() => undefined);
    if (seen !== undefined && isUnsafe(seen)) return seen;
    const message = error instanceof Error ? error.message : String(error);
    throw new Error(`${scene.name} could not be played: ${message}`, { cause: error });
  } finally {
    await scene.dispose();
  }
}

async function tooLong(): Promise<never> {
  await sleep(TRIAL_LIMIT_MS, undefined, { ref: false });
  throw new Error(`it did not end within ${TRIAL_LIMIT_MS / 1_000} s`);
}
