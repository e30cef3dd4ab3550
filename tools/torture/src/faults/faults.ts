import type { StageKind } from '../servers/stage.js';
import { CLOCK_FAULTS } from './clock-faults.js';
import { CLOCK_STEPS } from './clock-steps.js';
import { CLUSTER_FAULTS } from './cluster-faults.js';
import { CONNECTION_FAULTS, INBOX_FAULTS, PROXY_FAULTS } from './connection-faults.js';
import { CROWDS, FAR_CROWDS } from './crowd-faults.js';
import { FAILOVERS } from './failovers.js';
import type { Fault } from './fault.js';
import { KEY_FAULTS } from './key-faults.js';
import { REDIS_FAULTS, RESTARTS } from './redis-faults.js';
import { SENTINEL_FAULTS } from './sentinel-faults.js';
import { WORKER_FAULTS } from './worker-faults.js';

type Faults = Readonly<Record<string, Fault>>;

const OF_PROXY = { ...PROXY_FAULTS, ...FAR_CROWDS };

const OF_STAGE: Readonly<Record<StageKind, Faults>> = {
  single: { ...OF_PROXY, ...RESTARTS },
  replicated: { ...OF_PROXY, ...FAILOVERS },
  'stepped-clock': { ...OF_PROXY, ...CLOCK_STEPS },
  sentinel: SENTINEL_FAULTS,
  cluster: CLUSTER_FAULTS,
};

/**
 * The faults of a stage, in streams. The faults of one stream come one after the other; those of several streams may
 * come at the same time.
 */
export function faultsOf(stage: StageKind): readonly Faults[] {
  const ofRedis = {
    ...REDIS_FAULTS,
    ...CONNECTION_FAULTS,
    ...INBOX_FAULTS,
    ...OF_STAGE[stage],
  };
  return [ofRedis, { ...WORKER_FAULTS, ...CLOCK_FAULTS }, { ...KEY_FAULTS, ...CROWDS }];
}

export const FAULT_NAMES: readonly string[] = [
  ...new Set(
    Object.keys(OF_STAGE)
      .flatMap((stage) => faultsOf(stage as StageKind))
      .flatMap(Object.keys),
  ),
];
