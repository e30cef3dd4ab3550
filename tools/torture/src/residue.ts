import type { Violation } from './checker/rules.js';
import type { Stage } from './stages/stage.js';

/** Keys that end on their own and hinder nobody. */
const MAY_STAY = /^lock:(process:[0-9a-f]{32}|\{[^{}]+\}:(fence|lapsed))$/;

/** The fence of all keys, which hinders nobody either. */
const STAYS = 'lock:fence';

/**
 * What may be left in Redis when nobody holds or waits: a fencing number for all keys, or one for each key of a
 * cluster, and records of processes. All but the first have an end.
 */
export async function residue({ masters, mayStay }: Stage): Promise<Violation[]> {
  const found: Violation[] = [];
  const note = (text: string): void => void found.push({ rule: 'residue', text });
  for (const { admin } of masters) {
    for (const key of await admin.keys('*')) {
      if (key === STAYS) continue;
      const ms = await admin.pttl(key);
      if (ms === -2) continue; // it has expired by now
      if (!MAY_STAY.test(key) && mayStay?.test(key) !== true) note(`${key} is left in Redis`);
      if (ms === -1) note(`${key} is left in Redis and has no end`);
    }
  }
  return found;
}
