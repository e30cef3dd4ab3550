import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import type { Caller } from './caller.js';
import type { RecordedCall } from './recorder.js';

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
  const controller = new AbortController();
  const calls: RecordedCall[] = [];
  const asked = async (key: string, n: number): Promise<void> => {
    for (let turn = n % TURNS; typeof when === 'number' && turn > 0; turn--) await nextTurn();
    if (controller.signal.aborted) return;
    const options = {
      signal: controller.signal,
      onAsked: (call: RecordedCall) => void calls.push(call),
    };
    await caller.acquire('crowd', [key], options, () => sleep(caller.random.between(0, 30)));
  };
  const all = keys.map(asked);
  if (when === 'in the next turn') await nextTurn();
  if (typeof when === 'number') await sleep(when);
  for (const call of calls) if (!call.wasHeld) call.aborted();
  controller.abort();
  await Promise.all(all);
  const again = keys.filter(() => caller.random.chance(1 / ONE_IN));
  await Promise.all(
    again.map((key) => caller.acquire('after-crowd', [key], {}, () => Promise.resolve())),
  );
}
