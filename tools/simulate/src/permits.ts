import { SeededRandom } from 'kit';
import { furtherCall, KINDS_OF_ALL_MODES, limit } from './further-calls.js';
import type { PlannedCall, PlannedProcess } from './plan.js';

const PERMITS = 0x9e33;

/**
 * Half of the histories have keys with permits, calls that want one or several of them, and further such calls. Now and
 * then, a call has another number than others, as while a new version is deployed. Drawn by themselves, as readers are.
 */
export function withPermits(
  seed: number,
  calmAtMs: number,
  processes: readonly PlannedProcess[],
): readonly PlannedProcess[] {
  const random = new SeededRandom(seed ^ PERMITS);
  if (!random.chance(0.5)) return processes;
  const share = random.pick([0.4, 0.8, 1]);
  const further = random.pick([0, 8, 20]);
  const moments = [0, 1].map(() => random.between(0, calmAtMs - 1));
  const keys = [...new Set(processes.flatMap(({ calls }) => calls.flatMap((call) => call.keys)))];
  const numbers = new Map(
    keys.filter(() => random.chance(0.8)).map((key) => [key, random.pick([1, 2, 2, 3, 4])]),
  );
  const isDeployed = random.chance(0.2);
  const wants = (call: PlannedCall): PlannedCall => {
    const permits = Object.fromEntries(
      call.keys.flatMap((key): [string, number][] => {
        const number = numbers.get(key);
        if (number === undefined) return [];
        return [[key, isDeployed && random.chance(0.3) ? number + 1 : number]];
      }),
    );
    const most = Math.min(...Object.values(permits));
    if (most === Infinity) return call;
    return { ...call, permits, weight: Math.min(most, random.pick([1, 1, 1, 2, 3])) };
  };
  const calls = {
    keys,
    calmAtMs,
    moments,
    waitsMs: [0, 50, 1_000, 10_000, 10_000, 10_000],
    worksMs: [3, 20, 100, 100],
  };
  return processes.map((process): PlannedProcess => {
    const changed = process.calls.map((call): PlannedCall => {
      const mayWant = KINDS_OF_ALL_MODES.includes(call.kind) && call.mode === undefined;
      return mayWant && random.chance(share) ? { ...wants(call), nestedReads: false } : call;
    });
    const added = Array.from({ length: random.between(0, further) }, (_, i): PlannedCall => {
      const call = furtherCall(random, process, calls, `w${i + 1}`);
      return { ...wants(call), ...limit(random, call) };
    });
    return { ...process, calls: [...changed, ...added].sort((a, b) => a.atMs - b.atMs) };
  });
}
