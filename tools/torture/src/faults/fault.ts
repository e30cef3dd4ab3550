import type { SeededRandom } from 'kit';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Crew } from '../crew.js';
import type { Concerned, Effects, EntryKinds } from '../history/entry.js';
import { type HistoryFile, monotonicMs } from '../history/history-file.js';
import type { LatencyProxy } from '../stages/latency-proxy.js';
import { type Master, type ProxiedStage, serverOf, type Stage } from '../stages/stage.js';
import type { WorkerProcess } from '../worker/worker-process.js';

/** What every fault may act on. */
export interface Setting {
  readonly random: SeededRandom;
  readonly crew: Crew;
  /** The name of the fault that happens. */
  readonly name: string;
}

/** What a fault of Redis, of connections, keys or clocks may act on. */
export interface Scene<OnStage extends Stage = Stage> extends Setting {
  readonly history: HistoryFile<EntryKinds>;
  readonly stage: OnStage;
}

/** Does something bad, and ends when everything is put right again. */
export type Fault<In> = (setting: In) => Promise<unknown>;

export type Faults<OnStage extends Stage = Stage> = Readonly<Record<string, Fault<Scene<OnStage>>>>;

/**
 * Writes down what a fault did, from before its beginning until after its end.
 *
 * @param action is given a function, which it calls when nothing more will be forgotten from then on
 */
export async function noted(
  { history, name }: Pick<Scene, 'history' | 'name'>,
  effects: Effects,
  action: (nothingMoreIsForgotten: () => void) => unknown,
): Promise<void> {
  const at = monotonicMs();
  let marked: { forgetsUntil?: number } = {};
  try {
    await action(() => (marked = { forgetsUntil: monotonicMs() }));
  } finally {
    history.note('fault', { name, until: monotonicMs(), ...effects, ...marked }, at);
  }
}

/** Does something to one of the masters. */
export function onMaster(
  act: (master: Master, random: SeededRandom) => unknown,
  effects: (its: Concerned) => Effects = (its) => ({ disturbs: its }),
): Fault<Scene> {
  return (scene) => {
    const master = scene.random.pick(scene.stage.masters);
    return noted(scene, effects(serverOf(master.keys)), () => act(master, scene.random));
  };
}

/** Does something to the proxy between workers and the server. */
export function onProxy(
  act: (proxy: LatencyProxy, random: SeededRandom) => unknown,
): Fault<Scene<ProxiedStage>> {
  return (scene) => noted(scene, { disturbs: 'all' }, () => act(scene.stage.proxy, scene.random));
}

/** Undefined if all of them have ended, and their successors cannot start because a server is away. */
export function someWorker({ random, crew }: Setting): WorkerProcess | undefined {
  return crew.workers.length === 0 ? undefined : random.pick(crew.workers);
}

interface Pausable {
  pause(): void;
  resume(): void;
}

/** How many faults let each of them stand still now. */
const PAUSES = new WeakMap<Pausable, number>();

/**
 * Lets a server or a worker stand still. Several faults may do so at once, and none of them wakes it up for the others:
 * a master that is to be replaced would go on, and nobody would replace it.
 *
 * @returns goes on, unless another fault wants it to stand still
 */
export function standStill(one: Pausable): () => void {
  PAUSES.set(one, (PAUSES.get(one) ?? 0) + 1);
  one.pause();
  return () => {
    const others = (PAUSES.get(one) ?? 1) - 1;
    PAUSES.set(one, others);
    if (others === 0) one.resume();
  };
}

/** Lets it stand still for so long. */
export async function pauseFor(one: Pausable, ms: number): Promise<void> {
  const goOn = standStill(one);
  await sleep(ms);
  goOn();
}
