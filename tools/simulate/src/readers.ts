import { SeededRandom } from 'kit';
import type { PlannedCall, PlannedProcess } from './plan.js';

const READERS = 0x5ead;

/** Those that are the same for readers, and for permits: the others keep a key after the work, or only look. */
export const READING = ['withLock', 'acquire', 'try', 'several', 'nested', 'aborted', 'fixed'];

/**
 * Half of the histories have calls that only read (`mode: 'shared'`), and further ones. They came later, and are drawn
 * by themselves, so that the other half stays the same.
 */
export function withReaders(
  seed: number,
  calmAtMs: number,
  processes: readonly PlannedProcess[],
): readonly PlannedProcess[] {
  const random = new SeededRandom(seed ^ READERS);
  if (!random.chance(0.5)) return processes;
  const share = random.pick([0.3, 0.6, 0.9]);
  const further = random.pick([0, 4, 12]);
  // When several come at once.
  const moments = [0, 1, 2].map(() => random.between(0, calmAtMs - 1));
  const keys = [...new Set(processes.flatMap(({ calls }) => calls.flatMap((call) => call.keys)))];
  return processes.map((process): PlannedProcess => {
    const changed = process.calls.map((call): PlannedCall => {
      const reads = READING.includes(call.kind) && random.chance(share);
      const isNested = call.kind === 'nested' && random.chance(0.5);
      return {
        ...call,
        ...(reads && { mode: 'shared' }),
        ...((reads || isNested) && { nestedReads: true }),
        ...(reads && limit(random, call)),
      };
    });
    const added = Array.from({ length: random.between(0, further) }, (_, i): PlannedCall => {
      const kind = random.pick(READING) as PlannedCall['kind'];
      const one = random.pick(keys);
      const isNear = random.chance(0.6);
      const call: PlannedCall = {
        name: `r${i + 1}`,
        kind,
        mode: 'shared',
        nestedReads: true,
        atMs: isNear
          ? Math.max(0, random.pick(moments) + random.between(-20, 20))
          : random.between(0, calmAtMs - 1),
        keys: kind === 'several' ? keys.filter((key) => key === one || random.chance(0.6)) : [one],
        waitMs: kind === 'try' ? 0 : random.pick([0, 50, 1_000, 10_000, 10_000]),
        workMs: random.pick([0, 3, 20, 100, process.leaseMs * 0.8, process.leaseMs * 2]),
        abortMs: random.pick([0, 5, 100, 1_000]),
        prolongs: random.chance(0.1),
      };
      return { ...call, ...limit(random, call) };
    });
    const calls = [...changed, ...added].sort((a, b) => a.atMs - b.atMs);
    return { ...process, calls };
  });
}

/** Some may not hold for as long as their work takes. */
export function limit(
  random: SeededRandom,
  { prolongs, workMs }: PlannedCall,
): Pick<PlannedCall, 'maxHoldMs'> {
  const isLimited = random.chance(0.15);
  return isLimited && prolongs !== true && workMs > 3 ? { maxHoldMs: Math.ceil(workMs / 2) } : {};
}
