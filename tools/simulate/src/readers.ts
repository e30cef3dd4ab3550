import { SeededRandom } from 'kit';
import { furtherCall, KINDS_OF_ALL_MODES, limit } from './further-calls.js';
import type { PlannedCall, PlannedProcess } from './plan.js';

const READERS = 0x5ead;

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
  const moments = [0, 1, 2].map(() => random.between(0, calmAtMs - 1));
  const keys = [...new Set(processes.flatMap(({ calls }) => calls.flatMap((call) => call.keys)))];
  const calls = {
    keys,
    calmAtMs,
    moments,
    waitsMs: [0, 50, 1_000, 10_000, 10_000],
    worksMs: [0, 3, 20, 100],
  };
  return processes.map((process): PlannedProcess => {
    const changed = process.calls.map((call): PlannedCall => {
      const reads = KINDS_OF_ALL_MODES.includes(call.kind) && random.chance(share);
      const isNested = call.kind === 'nested' && random.chance(0.5);
      return {
        ...call,
        ...(reads && { mode: 'shared' }),
        ...((reads || isNested) && { nestedReads: true }),
        ...(reads && limit(random, call)),
      };
    });
    const added = Array.from({ length: random.between(0, further) }, (_, i): PlannedCall => {
      const drawn = furtherCall(random, process, calls, `r${i + 1}`);
      const call: PlannedCall = { ...drawn, mode: 'shared', nestedReads: true };
      return { ...call, ...limit(random, call) };
    });
    return { ...process, calls: [...changed, ...added].sort((a, b) => a.atMs - b.atMs) };
  });
}
