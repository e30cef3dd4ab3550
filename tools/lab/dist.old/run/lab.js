import { setTimeout as sleep } from 'node:timers/promises';
import { ACCIDENTS } from '../accidents/index.js';
import { sale } from '../accidents/sale.js';
import { deviationOf } from '../expected.js';
import { STAGES } from '../stages/index.js';
import { Scene } from './scene.js';
/** Our processes load Nest, which takes time, so not too many of them may start at once. */
const OURS_AT_ONCE = 2;
/** Many times what the longest trial takes, including the start of its processes. */
const TRIAL_LIMIT_MS = 120_000;
/** The pairs of chosen stages and chosen accidents that can happen. */
export function pairsOf(stages, accidents) {
    return STAGES.filter(({ number }) => stages.includes(number)).flatMap((stage) => ACCIDENTS.filter((accident) => accidents.includes(accident.id) && accident.cannotHappenTo(stage) === undefined).map((accident) => ({ stage, accident })));
}
/**
 * Runs the sales one after the other, because they are measured, and then the accidents, which mostly wait. A trial
 * that did not go as expected is repeated once, alone, because leases of 3 s end early on a machine that stands still
 * for that long. If it differs again, the difference counts.
 */
export async function runTrials(lab, pairs, atOnce, listener) {
    const trials = [];
    const again = [];
    const isSale = ({ accident }) => accident === sale;
    const isOurs = ({ stage }) => stage.number === 17;
    const run = async (queue) => {
        for (let pair = queue.shift(); pair !== undefined; pair = queue.shift()) {
            const trial = await play(lab, pair).catch((error) => error);
            const why = trial instanceof Error ? trial.message : deviationOf(trial);
            if (why !== undefined) {
                listener.repeats(pair, why);
                again.push(pair);
            }
            else if (!(trial instanceof Error)) {
                trials.push(trial);
                listener.done(pair, trial);
            }
        }
    };
    await run(pairs.filter(isSale));
    const ours = pairs.filter((pair) => !isSale(pair) && isOurs(pair));
    const others = pairs.filter((pair) => !isSale(pair) && !isOurs(pair));
    await Promise.all([
        ...Array.from({ length: OURS_AT_ONCE }, () => run(ours)),
        ...Array.from({ length: atOnce }, () => run(others)),
    ]);
    for (const pair of again) {
        const trial = await play(lab, pair);
        trials.push(trial);
        listener.done(pair, trial);
    }
    return trials;
}
async function playIn(scene, accident) {
    await accident.play(scene);
    return scene.close();
}
async function tooLong() {
    await sleep(TRIAL_LIMIT_MS, undefined, { ref: false });
    throw new Error(`it did not end within ${TRIAL_LIMIT_MS / 1_000} s`);
}
async function play(lab, { stage, accident }) {
    const scene = new Scene(stage, accident.id, lab);
    try {
        return await Promise.race([playIn(scene, accident), tooLong()]);
    }
    catch (error) {
        const message = error instanceof Error ? error.message : String(error);
        throw new Error(`${scene.name} could not be played: ${message}`, { cause: error });
    }
    finally {
        await scene.dispose();
    }
}
//# sourceMappingURL=lab.js.map