import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import type { Caller } from './caller.js';
import { OwnSignal } from './own-signal.js';

/** One of so many keys is asked for again after the crowd has given up. */
const ONE_IN = 50;
/** In how many turns of the event loop they come, if they have time. */
const TURNS = 5;

export type GivesUp = 'at once' | 'in the next turn' | number;

/**
 * Many calls at once, each for a key of its own, which give up together: because of one signal, perhaps before anybody
 * has answered. What they leave behind must be put away, and must not keep anybody waiting.
 *
 * @param when a number is milliseconds
 */
export async function crowd(caller: Caller, keys: readonly string[], when: GivesUp): Promise<void> {
  const { random } = caller;
  const signal = new OwnSignal();
  const ask = async (key: string, n: number): Promise<void> => {
    for (let turn = n % TURNS; typeof when === 'number' && turn > 0; turn--) await nextTurn();
    if (signal.isAborted) return;
    const work = () => sleep(random.between(0, 30));
    await caller.call('acquire', 'crowd', [key], signal.options, work);
  };
  const all = keys.map(ask);
  if (when === 'in the next turn') await nextTurn();
  if (typeof when === 'number') await sleep(when);
  signal.abort();
  await Promise.all(all);
  const again = keys.filter(() => random.chance(1 / ONE_IN));
  const afterwards = again.map((key) =>
    caller.call('acquire', 'after-crowd', [key], {}, async () => {}),
  );
  await Promise.all(afterwards);
}
