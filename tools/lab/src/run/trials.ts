import { setTimeout as sleep } from 'node:timers/promises';
import { type Accident, ACCIDENTS, SALE, whyNot } from '../accidents.js';
import { deviationOf } from '../expected.js';
import { STAGES } from '../stages/index.js';
import type { Stage } from '../stages/stage.js';
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
export function pairsOf(stages: readonly number[], accidents: readonly string[]): Pair[] {
  return STAGES.filter(({ number }) => stages.includes(number)).flatMap((stage) =>
    ACCIDENTS.filter(
      (accident) => accidents.includes(accident.id) && whyNot(accident, stage) === undefined,
    ).map((accident) => ({ stage, accident })),
  );
}

/**
 * Runs the sales one after the other, because they are measured, and then the accidents, which mostly wait. A trial
 * that did not go as expected is repeated once, alone, because leases of 3 s end early on a machine that stands still
 * for that long. If it differs again, the difference counts.
 */
export async function runTrials(
  lab: Laboratory,
  pairs: readonly Pair[],
  atOnce: number,
  say: (text: string) => void,
): Promise<Trial[]> {
  const trials: Trial[] = [];
  const again: Pair[] = [];

  const done = ({ stage: { number, name }, accident }: Pair, trial: Trial): void => {
    const { findings, summary } = trial;
    const details = summary === '' ? '' : ` (${summary})`;
    trials.push(trial);
    say(
      `${trials.length}/${pairs.length}  ${number} ${name}, ${accident.id}: ${findings[0] ?? 'held'}${details}`,
    );
  };
  const run = async (queue: Pair[]): Promise<void> => {
    for (let pair = queue.shift(); pair !== undefined; pair = queue.shift()) {
      const trial = await play(lab, pair).catch((error: Error) => error);
      const why = trial instanceof Error ? trial.message : deviationOf(trial);
      if (why !== undefined) {
        say(`stage ${pair.stage.number}, ${pair.accident.id} will be repeated alone: ${why}`);
        again.push(pair);
      } else if (!(trial instanceof Error)) done(pair, trial);
    }
  };

  const isSale = ({ accident }: Pair): boolean => accident === SALE;
  await run(pairs.filter(isSale));
  const accidents = pairs.filter((pair) => !isSale(pair));
  const ours = accidents.filter(({ stage }) => stage.number === 17);
  const others = accidents.filter(({ stage }) => stage.number !== 17);
  await Promise.all([
    ...Array.from({ length: OURS_AT_ONCE }, () => run(ours)),
    ...Array.from({ length: atOnce }, () => run(others)),
  ]);
  for (const pair of again) done(pair, await play(lab, pair));
  return trials;
}

async function play(lab: Laboratory, { stage, accident }: Pair): Promise<Trial> {
  const scene = new Scene(stage, accident.id, lab);
  try {
    return await Promise.race([accident.play(scene).then(() => scene.close()), tooLong()]);
  } catch (error) {
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
