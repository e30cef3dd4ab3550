import { SeededRandom } from 'kit';
import type { HandOff, PlannedCall, PlannedProcess } from './plan.js';

const HAND_OFFS = 0xad07;

/** The kinds of calls that may detach their lock: it is renewed, and kept for no longer than the work. */
const DETACHING: readonly PlannedCall['kind'][] = ['withLock', 'several', 'acquire', 'aborted'];

/**
 * In a third of the histories, a part of the calls detach their locks, and others adopt them: in any process, in time
 * or late, several at once, and again. Drawn by themselves, as readers are.
 */
export function withHandOffs(
  seed: number,
  processes: readonly PlannedProcess[],
): readonly PlannedProcess[] {
  const random = new SeededRandom(seed ^ HAND_OFFS);
  if (!random.chance(0.34)) return processes;
  const share = random.pick([0.3, 0.6]);
  const names = processes.map(({ name }) => name);
  const handOff = (leaseMs: number): HandOff => {
    const forMs = random.pick([500, leaseMs, 2 * leaseMs]);
    const count = random.pick([0, 1, 1, 1, 2, 3]);
    const together = random.pick([0, 5, forMs / 2, forMs, forMs + 50]);
    const adopters = Array.from({ length: count }, () => ({
      process: random.pick(names),
      afterMs: Math.max(0, Math.round(together) + random.pick([0, 0, 1, 2, 30])),
      workMs: random.pick([0, 3, 20, 100, leaseMs * 2]),
      ...(random.chance(0.2) && { handOff: handOff(leaseMs) }),
    }));
    return { forMs, adopters };
  };
  return processes.map((process) => ({
    ...process,
    calls: process.calls.map((call): PlannedCall => {
      const isAlone = call.mode === undefined && call.permits === undefined;
      const mayDetach = isAlone && DETACHING.includes(call.kind) && call.maxHoldMs === undefined;
      if (!mayDetach || !random.chance(share)) return call;
      return { ...call, handOff: handOff(process.leaseMs) };
    }),
  }));
}
