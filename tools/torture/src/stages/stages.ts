import { faketime } from 'dev-servers';
import type { SeededRandom } from 'kit';
import type { Faults } from '../faults/fault.js';
import { KEY_FAULTS } from '../faults/key-faults.js';
import { PROXY_FAULTS } from '../faults/proxy-faults.js';
import { QUORUM_FAULTS, QUORUM_KEY_FAULTS } from '../faults/quorum-faults.js';
import { REDIS_FAULTS } from '../faults/redis-faults.js';
import { WORKER_FAULTS } from '../faults/worker-faults.js';
import type { EntryKinds } from '../history/entry.js';
import type { HistoryFile } from '../history/history-file.js';
import { CLUSTER_FAULTS, ClusterStage } from './cluster.js';
import { QuorumStage } from './quorum.js';
import { FAILOVERS, ReplicatedStage } from './replicated.js';
import { SENTINEL_FAULTS, SentinelStage } from './sentinel.js';
import { RESTARTS, SingleStage } from './single.js';
import type { Stage } from './stage.js';
import { CLOCK_STEPS, SteppedClockStage } from './stepped-clock.js';

interface StageType {
  readonly start: (start: {
    readonly random: SeededRandom;
    /** Where the servers keep their data. */
    readonly folder: string;
    readonly history: HistoryFile<EntryKinds>;
  }) => Promise<Stage>;
  /** What can happen to its servers, and to the ways to them. */
  readonly faults: Faults<never>;
}

const STAGE_TYPES = {
  single: {
    start: ({ folder }) => SingleStage.start(folder),
    faults: { ...PROXY_FAULTS, ...RESTARTS },
  },
  replicated: {
    start: () => ReplicatedStage.start(),
    faults: { ...PROXY_FAULTS, ...FAILOVERS },
  },
  'stepped-clock': {
    start: ({ folder }) => SteppedClockStage.start(folder),
    faults: { ...PROXY_FAULTS, ...CLOCK_STEPS },
  },
  sentinel: { start: ({ history }) => SentinelStage.start(history), faults: SENTINEL_FAULTS },
  cluster: {
    start: ({ random, history }) => ClusterStage.start(random, history),
    faults: CLUSTER_FAULTS,
  },
  quorum: {
    start: ({ history }) => QuorumStage.start(history),
    faults: QUORUM_FAULTS,
  },
} satisfies Record<string, StageType>;

export type StageKind = keyof typeof STAGE_TYPES;

export const STAGES = Object.keys(STAGE_TYPES) as StageKind[];

/** @param asked if undefined, the seed chooses */
export function chosenStage(asked: StageKind | undefined, random: SeededRandom): StageKind {
  const kind = asked ?? random.pick(STAGES);
  if (kind !== 'stepped-clock' || faketime !== undefined) return kind;
  console.log('skipped: clock steps, because there is no libfaketime; stage single instead');
  return 'single';
}

export function startStage(
  kind: StageKind,
  start: Parameters<StageType['start']>[0],
): Promise<Stage> {
  return STAGE_TYPES[kind].start(start);
}

/**
 * The faults of a stage, in streams. The faults of one stream come one after the other; those of several streams may
 * come at the same time.
 */
export function faultsOf(kind: StageKind): readonly Faults<never>[] {
  // What happens to one of its nodes, or to a key there, must not be noticed.
  if (kind === 'quorum') return [QUORUM_FAULTS, WORKER_FAULTS, QUORUM_KEY_FAULTS];
  return [{ ...REDIS_FAULTS, ...STAGE_TYPES[kind].faults }, WORKER_FAULTS, KEY_FAULTS];
}

export const FAULT_NAMES: readonly string[] = [
  ...new Set(STAGES.flatMap(faultsOf).flatMap((faults) => Object.keys(faults))),
];
