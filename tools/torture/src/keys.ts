import type { SeededRandom } from 'kit';

/** Wanted by everybody, all the time. */
export const HOT_KEYS = ['a', 'b', 'c'];
/** Wanted now and then, so that unused leases of them linger. */
export const WARM_KEYS = ['m1', 'm2', 'm3', 'm4'];
/** Held for long by the calls that hold a key for long. */
export const LONG_KEYS = ['m3', 'm4'];
/** Hardly ever wanted, and then mostly by calls that try once. */
export const COLD_KEYS = ['x1', 'x2', 'x3', 'x4', 'x5', 'x6'];

/** Only ever asked for alone, so what happens to another key excuses nothing. A cluster has them on each master. */
export const LONE_KEYS = ['w1', 'w2', 'w3', 'w4', 'w5', 'w6'];
/** Asked for by many calls at once, which give up together. */
export const CROWD_KEYS: readonly string[] = Array.from({ length: 1_500 }, (_, n) => `crowd-${n}`);

/** The keys that a call may combine. */
export const ALL_KEYS = [...HOT_KEYS, ...WARM_KEYS, ...COLD_KEYS];
/** The keys of which a whole run is judged. */
export const STEADY_KEYS = [...ALL_KEYS, ...LONE_KEYS];
export const EVERY_KEY: readonly string[] = [...STEADY_KEYS, ...CROWD_KEYS];

export function anyKey(random: SeededRandom): string {
  const share = random.next();
  return random.pick(share < 0.6 ? HOT_KEYS : share < 0.9 ? WARM_KEYS : COLD_KEYS);
}

/** Two to four keys, perhaps one of them twice. */
export function severalKeys(random: SeededRandom): string[] {
  const keys = new Set<string>();
  const count = random.between(2, 3);
  while (keys.size < count) keys.add(anyKey(random));
  const [first] = keys;
  return random.chance(0.1) ? [...keys, first as string] : [...keys];
}
