import type { SeededRandom } from 'kit';
import type { PlannedCall, PlannedProcess } from './plan.js';

/** The kinds that readers and permits have too: the others keep a key after the work, or only look. */
export const KINDS_OF_ALL_MODES: readonly PlannedCall['kind'][] = [
  'withLock',
  'acquire',
  'try',
  'several',
  'nested',
  'aborted',
  'fixed',
];

/** The keys of a history that has further calls, and when they come. */
export interface FurtherCalls {
  readonly keys: readonly string[];
  readonly calmAtMs: number;
  /** When several come at once. */
  readonly moments: readonly number[];
  readonly waitsMs: readonly number[];
  /** Besides those that are as long as the lease, or longer. */
  readonly worksMs: readonly number[];
}

/** A call that comes in addition to those of the plan. */
export function furtherCall(
  random: SeededRandom,
  { leaseMs }: PlannedProcess,
  { keys, calmAtMs, moments, waitsMs, worksMs }: FurtherCalls,
  name: string,
): PlannedCall {
  const kind = random.pick(KINDS_OF_ALL_MODES);
  const one = random.pick(keys);
  return {
    name,
    kind,
    atMs: random.chance(0.6)
      ? Math.max(0, random.pick(moments) + random.between(-20, 20))
      : random.between(0, calmAtMs - 1),
    keys: kind === 'several' ? keys.filter((key) => key === one || random.chance(0.6)) : [one],
    waitMs: kind === 'try' ? 0 : random.pick(waitsMs),
    workMs: random.pick([...worksMs, leaseMs * 0.8, leaseMs * 2]),
    abortMs: random.pick([0, 5, 100, 1_000]),
    prolongs: random.chance(0.1),
  };
}

/** Some may not hold for as long as their work takes. */
export function limit(
  random: SeededRandom,
  { prolongs, workMs }: PlannedCall,
): Pick<PlannedCall, 'maxHoldMs'> {
  const isLimited = random.chance(0.15);
  return isLimited && prolongs !== true && workMs > 3 ? { maxHoldMs: Math.ceil(workMs / 2) } : {};
}
