import { SeededRandom } from 'kit';
import { furtherCall } from './further-calls.js';
import { withHandOffs } from './hand-offs.js';
import {
  CallPlanner,
  FAULTS,
  type Plan,
  type PlannedCall,
  type PlannedFault,
  type PlannedProcess,
  type PlannedQuorum,
} from './plan.js';

/** What happens to processes, as beside one server. */
const OF_PROCESSES = FAULTS.slice(0, 4);

export const QUORUM_FAULTS = [
  'pause a node',
  'restart a node',
  'empty a node',
  'fail over a node',
  'pause most nodes',
  'restart most nodes',
  'empty most nodes',
  'step the clock of a node',
  'cut the connections of a node',
  'part a process from a node',
  'part a process from all nodes',
  'forget the scripts of a node',
  'fill the memory of a node',
  'refuse writes at a node',
  'refuse a command at a node',
  'deafen a process at a node',
] as const;

/** What a server never does that keeps every write, so that its votes count at once after it has started. */
const FORGETFUL = QUORUM_FAULTS.filter((what) => /^(?:empty|fail over)/.test(what));

const QUORUM = 0x901e;

/** Histories with three or five servers, none of which knows of another. There, calls lock alone. */
export function planOfQuorum(seed: number): Plan {
  const random = new SeededRandom(seed ^ QUORUM);
  const calmAtMs = random.pick([3_000, 6_000, 12_000]);
  const keys = ['a', 'b', 'c'].slice(0, random.between(1, 3));
  const leaseMs = random.pick([500, 1_500, 6_000]);
  const isQuiet = random.chance(0.5);
  const quorum = quorumOf(random, leaseMs);
  const faults = faultsOf(random, calmAtMs, leaseMs, quorum);
  // Numbers are reserved at the moments at which nodes come and go.
  const back = faults.map((fault) => ({ ...fault, forMs: fault.forMs + quorum.rejoinAfterMs }));
  // A process that starts afterwards cannot know that another server has taken the place of one.
  const isFailedOver = faults.some(({ what }) => what === 'fail over a node');
  const calls = new CallPlanner(random, keys, calmAtMs, leaseMs, [...faults, ...back]);
  const mayBeLong = quorum.rejoinAfterMs === 0 || quorum.rejoinAfterMs >= 2 * leaseMs;
  const further = random.pick([0, 0, 5, 15]);
  const furtherCalls = {
    keys,
    calmAtMs,
    moments: [0, 1, 2].map(() => random.between(0, calmAtMs - 1)),
    waitsMs: [0, 50, 1_000, 10_000, 10_000],
    worksMs: [0, 3, 20, 100],
  };
  const processes = Array.from({ length: random.between(2, 4) }, (_, i): PlannedProcess => {
    const process = {
      name: `p${i + 1}`,
      leaseMs,
      lingerMs: random.pick([0, 0, 50, 400]),
      localHandovers: random.pick([undefined, 0, 2]),
      startMs: random.chance(0.8) ? 0 : random.between(0, calmAtMs / 2),
      ...(isFailedOver && { startMs: 0 }),
    };
    const usual = Array.from({ length: random.between(1, 8) }, (__, j) => calls.next(`${j + 1}`));
    const more = Array.from({ length: random.between(0, further) }, (__, j) =>
      furtherCall(random, { ...process, calls: [] }, furtherCalls, `f${j + 1}`),
    );
    const all = [...usual, ...more].map((call): PlannedCall => ({
      ...call,
      prolongs: mayBeLong && call.prolongs === true,
    }));
    return { ...process, calls: all.sort((a, b) => a.atMs - b.atMs) };
  });
  return {
    seed,
    calmAtMs,
    isQuiet,
    quorum,
    processes: mayBeLong ? withHandOffs(seed ^ QUORUM, processes) : processes,
    faults,
  };
}

function quorumOf(random: SeededRandom, leaseMs: number): PlannedQuorum {
  const size = random.pick([3, 3, 5]);
  const areApart = random.chance(0.5);
  const clockMs = (): number =>
    areApart ? random.pick([0, 0, 300, -300, 2_500, 5_000, -5_000]) : 0;
  return {
    clocksMs: Array.from({ length: size }, clockMs),
    rejoinAfterMs: random.chance(0.15) ? 0 : random.pick([leaseMs, 2 * leaseMs, 2 * leaseMs]),
  };
}

function faultsOf(
  random: SeededRandom,
  calmAtMs: number,
  leaseMs: number,
  { rejoinAfterMs }: PlannedQuorum,
): readonly PlannedFault[] {
  const isForgetful = rejoinAfterMs > 0;
  const ofNodes = QUORUM_FAULTS.filter((what) => isForgetful || !FORGETFUL.includes(what));
  const count = random.pick([0, 1, 2, 2, 4, 6]);
  const drawn = Array.from({ length: count }, (): PlannedFault => {
    const isOfProcess = random.chance(0.25);
    const forgets = isForgetful && random.chance(0.2);
    const what = random.pick(isOfProcess ? OF_PROCESSES : forgets ? FORGETFUL : ofNodes);
    const times = [20, 200, leaseMs / 3, leaseMs, 2 * leaseMs];
    const atMs = random.between(0, calmAtMs - 1);
    return { what, atMs, forMs: random.pick(times), which: random.between(0, 9_999) };
  });
  return drawn.sort((a, b) => a.atMs - b.atMs);
}
