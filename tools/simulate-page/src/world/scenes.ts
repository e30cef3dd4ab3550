import { SeededRandom } from 'kit';
import type { LastAct } from '../../../simulate/dist/last-acts.js';
import { lastActs } from '../../../simulate/dist/last-acts.js';
import { type Plan, type PlannedCall, planOf } from '../../../simulate/dist/plan.js';
import type { SceneName } from '../view.js';

const KEY = 'stock:42';
const LEASE_MS = 3_000;
const CALM_MS = 120_000;

/** What is planned, and how it ends. */
export interface Scene {
  readonly plan: Plan;
  readonly lastActs: readonly LastAct[];
}

export const SCENE_OF: Readonly<Record<SceneName, (seed: number) => Scene>> = {
  /** Three processes that want one key, and nothing that disturbs them. */
  calm: (seed) => {
    const random = new SeededRandom(seed);
    const processes = ['p1', 'p2', 'p3'].map((name) => ({
      name,
      leaseMs: LEASE_MS,
      lingerMs: 0,
      localHandovers: undefined,
      startMs: 0,
      calls: callsOf(random),
    }));
    const plan = { seed, calmAtMs: CALM_MS, processes, faults: [] };
    return { plan, lastActs: [{ atMs: CALM_MS, act: () => {} }] };
  },
  /** A history of the campaign, with its faults. */
  faults: (seed) => {
    const plan = planOf(seed);
    return { plan, lastActs: lastActs(plan) };
  },
};

function callsOf(random: SeededRandom): readonly PlannedCall[] {
  const calls: PlannedCall[] = [];
  for (
    let atMs = random.between(100, 1_500);
    atMs < CALM_MS;
    atMs += random.between(3_000, 7_000)
  ) {
    calls.push({
      name: `${calls.length + 1}`,
      kind: 'withLock',
      atMs,
      keys: [KEY],
      waitMs: 15_000,
      workMs: random.pick([400, 900, 1_600, 2_400, 4_000]),
      abortMs: 0,
    });
  }
  return calls;
}
