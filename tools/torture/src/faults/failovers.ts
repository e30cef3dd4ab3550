import type { ReplicatedStage } from '../servers/replicated-stage.js';
import { type Fault, noted } from './fault.js';

/** A lease that was released shortly before may exist again, and then lasts for as long as the longest one. */
const HEALING_MS = 7_500;

const LOSS = {
  disturbs: 'all',
  forgets: 'all',
  notice: 'reconnect',
  healingMs: HEALING_MS,
} as const;

/** The replica takes the master's place, behind the same address. */
export const FAILOVERS = {
  'failover in order': (scene) =>
    noted(scene, 'failover in order', { disturbs: 'all' }, () =>
      stageOf(scene).failOverInOrder(scene.random.chance(0.5)),
    ),
  'failover with loss': (scene) =>
    noted(scene, 'failover with loss', LOSS, (nothingMoreIsForgotten) => {
      const { random } = scene;
      const splitMs = random.between(0, 300);
      return stageOf(scene).failOverWithLoss(splitMs, random.chance(0.5), nothingMoreIsForgotten);
    }),
  'failover after a crash': (scene) =>
    noted(scene, 'failover after a crash', LOSS, (nothingMoreIsForgotten) =>
      stageOf(scene).failOverAfterCrash(nothingMoreIsForgotten),
    ),
} satisfies Record<string, Fault>;

function stageOf({ stage }: Parameters<Fault>[0]): ReplicatedStage {
  return stage as ReplicatedStage;
}
