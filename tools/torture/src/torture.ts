import { SeededRandom } from 'kit';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { check, type Verdict } from './checker/check.js';
import type { KeyTimes } from './checker/excuses.js';
import { groupBy } from './collections.js';
import { Crew } from './crew.js';
import type { Scene } from './faults/fault.js';
import { runFaults } from './faults/streams.js';
import { type Entry, type EntryKinds, MAIN_PROCESS, SLOW_PULSE } from './history/entry.js';
import { HistoryFile, monotonicMs } from './history/history-file.js';
import { judge } from './judge.js';
import { ALL_KEYS, CROWD_KEYS, LONE_KEYS, STEADY_KEYS } from './keys.js';
import { hyphenated, type TortureOptions } from './options.js';
import { watchPulse } from './pulse.js';
import { residue } from './residue.js';
import type { Stage } from './stages/stage.js';
import { chosenStage, faultsOf, type StageKind, startStage } from './stages/stages.js';
import { SECOND_SERVICE } from './worker/application.js';
import { watchHeartbeat } from './worker/heartbeat.js';
import type { Feature } from './worker/repertoire.js';
import type { DetachedLock, Permits, Readers, ServiceTask, WorkerTask } from './worker/task.js';
import { WorkerProcess } from './worker/worker-process.js';

/** The limits of a run. */
const LIMITS = {
  /** Longer than the check for lost messages, the pause after a foreign holder, and the delays of a busy machine. */
  gapMs: 900,
  /** Longer than those need that may be served first although they asked later: calls of one process take turns. */
  fairMs: 12_000,
  excusedShare: 0.1,
  /** Less than this is left on a machine that has too much to do. */
  excusedTimeShare: 0.9,
  /**
   * Several faults at once are what torture is for, and after a burst of five seconds it takes the longest lease and a
   * retry, 3.5 seconds, until all waits are judged again. With a tenth, there would be one burst in 85 seconds.
   */
  plannedTimeShare: 0.6,
};
/** What is granted while sentinels announce a planned failover, which takes a second, is granted by the old master. */
const EXCUSED_SHARE_WITH_SENTINELS = 0.15;
/**
 * The nodes of a quorum do not know of each other, so nobody hands a key over, and there is an order only on average:
 * who waits for longer may come later. A waiter that hears nothing asks again after half a second to a second, and a
 * round in which a node is silent takes up to half a second.
 */
const LIMITS_OF_QUORUM = { gapMs: 2_500, fairMs: Infinity, isUnordered: true };
/** The longest wait, and what comes after it. */
const FINISH_LIMIT_MS = 45_000;

/**
 * Calm first, then faults, then calm again. The rules for times when nothing is wrong are strict, so there must be such
 * times.
 */
const CYCLE_MS = 13_000;
const CALM_MS = 3_000;
const FAULTS_UNTIL_MS = 8_000;
/** Only in every second cycle, something is done to servers and connections, which excuses all keys. */
const SERVER_CYCLE_MS = 2 * CYCLE_MS;
/** The average time until the next fault of each stream. */
const PAUSES_MS = [900, 1_200, 1_200];

const PROGRAM = { file: fileURLToPath(new URL('./worker/worker.js', import.meta.url)) };

/** Runs processes that lock under random faults for a while, and then checks what they saw. @returns the exit code */
export function torture(options: TortureOptions): Promise<number> {
  return judge(options, async (folder) => {
    const random = new SeededRandom(options.seed);
    const history = new HistoryFile<EntryKinds>(join(folder, 'history.jsonl'));
    const kind = chosenStage(options.stage, random);
    const stage = await startStage(kind, { random, folder, history });
    const isQuorum = kind === 'quorum';
    // Only the proxy is in this process. Servers that are reached without it do not stand still with it.
    const stopHeartbeat = watchHeartbeat((since, at) => {
      if ('proxy' in stage || isQuorum)
        history.note('stalled', { process: MAIN_PROCESS, since }, at);
    });
    const stopPulse = watchPulse(stage, history);
    // Its nodes vote for one holder: there are no readers, and no permits.
    const without = isQuorum
      ? ([...options.without, 'readers', 'permits'] as const)
      : options.without;
    const readers = drawnReaders(random, without);
    const permits = drawnPermits(random, without);
    const startWorker = (index: number, more: Partial<WorkerTask> = {}) => {
      const task = {
        ...taskOf(index, options, stage, random, { readers, permits }),
        history: history.path,
        ...more,
      };
      return WorkerProcess.start(PROGRAM, task, history, pass);
    };
    const crew = new Crew(startWorker);
    /** Brings a lock that was detached to some that are to adopt it, or to nobody. */
    function pass(lock: DetachedLock): void {
      const count = random.pick([0, 1, 1, 1, 2]);
      const { workers } = crew;
      if (workers.length === 0) return;
      const afterMs = random.pick([0, 0, 20, 400, 1_000]);
      for (let n = 0; n < count; n++) random.pick(workers).tell({ do: 'adopt', afterMs, ...lock });
    }
    try {
      await crew.start(options.processes);
      const faults = await disturb({ random, crew, history, stage }, kind, options);
      // The others must not have left anything behind.
      await crew.finish(FINISH_LIMIT_MS, (index) => startWorker(index, { sweeps: true }));
      const withSentinels = kind === 'sentinel' && { excusedShare: EXCUSED_SHARE_WITH_SENTINELS };
      const { seed, seconds } = options;
      // A shorter run has no calm cycle.
      const isShort = seconds * 1_000 < SERVER_CYCLE_MS && { plannedTimeShare: Infinity };
      const entries = history.read();
      // Nothing excuses what is broken on purpose, however busy the machine is.
      const judged = options.breaks.length > 0 ? entries.filter(isNotOfMachine) : entries;
      const ofQuorum = isQuorum && LIMITS_OF_QUORUM;
      const verdict = check(judged, { ...LIMITS, ...withSentinels, ...ofQuorum, ...isShort });
      const left = await residue(stage);
      console.log(
        `seed ${seed}, ${seconds} s, ${crew.started} processes, stage ${kind}${readers.share > 0 ? `, readers of ${readers.keys.join(' ')}` : ''}${permits.share > 0 ? `, permits of ${Object.keys(permits.numbers).join(' ')}` : ''}`,
      );
      if (isQuorum)
        console.log(
          'not judged: order and hand-over between processes, which a quorum does not promise',
        );
      print(verdict, faults);
      return [...verdict.violations, ...left];
    } finally {
      stopPulse();
      stopHeartbeat();
      await crew.stop();
      await stage.stop();
      history.close();
    }
  });
}

/** Whether an entry says something else than that the machine was busy. */
function isNotOfMachine(entry: Entry): boolean {
  return entry.kind !== 'stalled' && !(entry.kind === 'fault' && entry.name === SLOW_PULSE);
}

/** Every third run has no readers, and no run has them on all keys. */
function drawnReaders(random: SeededRandom, without: readonly Feature[]): Readers {
  const share = random.pick([0, 0.3, 0.7]);
  if (share === 0 || without.includes('readers')) return { keys: [], share: 0 };
  return { keys: [...ALL_KEYS, ...LONE_KEYS].filter(() => random.chance(0.5)), share };
}

/** Every third run has no permits, and no run has them on all keys. */
function drawnPermits(random: SeededRandom, without: readonly Feature[]): Permits {
  const share = random.pick([0, 0.5, 0.9]);
  if (share === 0 || without.includes('permits')) return { numbers: {}, share: 0 };
  const keys = [...ALL_KEYS, ...LONE_KEYS].filter(() => random.chance(0.5));
  return { numbers: Object.fromEntries(keys.map((key) => [key, random.between(1, 3)])), share };
}

function taskOf(
  index: number,
  { kinds, without, breaks }: TortureOptions,
  stage: Stage,
  random: SeededRandom,
  joint: Pick<ServiceTask, 'readers' | 'permits'>,
): Omit<WorkerTask, 'history'> {
  const forms = without.includes('own-clients')
    ? (['url', 'options'] as const)
    : (['url', 'url', 'options', 'client'] as const);
  const serviceTask = (name?: string): ServiceTask => ({
    name,
    redis: stage.addressFor(random),
    connection: random.pick(forms),
    options: {
      leaseMs: random.pick([500, 800, 800, 1_500, 2_500]),
      lingerMs: without.includes('linger') ? 0 : random.pick([0, 0, 100, 500]),
      localHandovers: random.pick([0, 4, 32]),
      awaitRelease: random.chance(0.7),
    },
    callers: random.between(1, 3),
    ...joint,
  });
  return {
    name: `p${index}`,
    seed: random.between(0, 2 ** 31),
    services: [serviceTask(), serviceTask(SECOND_SERVICE)],
    shutdownMs: random.between(100, 1_500),
    ...{ kinds, without },
    // It is enough that the first workers misbehave. Those that replace one that ended behave well.
    breaks: index <= 2 ? breaks : [],
    sweeps: false,
  };
}

/** @returns how often each fault happened */
function disturb(
  scene: Omit<Scene, 'name'>,
  kind: StageKind,
  { seconds, faults: chosen }: TortureOptions,
): Promise<Record<string, number>> {
  const startedAt = monotonicMs();
  const endAt = startedAt + seconds * 1_000;
  const calmMs = (cycleMs: number) => (at: number) => {
    const phase = (at - startedAt) % cycleMs;
    if (phase < CALM_MS) return CALM_MS - phase;
    return phase > FAULTS_UNTIL_MS ? cycleMs - phase + CALM_MS : 0;
  };
  const streams = faultsOf(kind).map((faults, n) => ({
    calmMs: calmMs(n === 0 ? SERVER_CYCLE_MS : CYCLE_MS),
    faults: Object.fromEntries(
      Object.entries(faults).filter(([name]) => chosen.has(hyphenated(name))),
    ),
    pauseMs: [50, (PAUSES_MS[n] as number) * 2] as const,
  }));
  return runFaults({ ...scene, stage: scene.stage as never }, streams, {
    endAt,
    lastAt: endAt - CALM_MS,
  });
}

/** What happened, and how much of the run was not judged, and why. */
function print(verdict: Verdict, faults: Record<string, number>): void {
  const { attempts, holds, excused, lost, refused, kinds, longestWaitMs } = verdict;
  const { runMs, byCause, byKey, planned } = verdict.excusedTime;
  const share = holds === 0 ? 0 : (excused / holds) * 100;
  console.log(`faults: ${JSON.stringify(faults)}
held: ${JSON.stringify(kinds)}
lost: ${JSON.stringify(lost)}, refused: ${JSON.stringify(refused)}
${attempts} attempts, ${holds} holds, ${excused} of them excused (${share.toFixed(1)} %), longest wait ${longestWaitMs} ms
waits excused, in ms of ${runMs.toFixed(0)}:`);
  for (const [cause, times] of Object.entries(byCause)) console.log(`  ${cause}: ${listed(times)}`);
  console.log(`  all together: ${listed(byKey)}`);
  console.log(`  of that, by planned faults: ${listed(planned)}`);
  const overlaps = listed(verdict.excusedOverlaps);
  if (overlaps !== '') console.log(`two holders excused, in ms: ${overlaps}`);
}

/** Keys with the same time stand together. Of the keys of crowds, which are many, the worst counts. */
function listed(times: KeyTimes): string {
  const crowd = Math.max(0, ...CROWD_KEYS.map((key) => times[key] ?? 0));
  const all = [
    ...STEADY_KEYS.map((key) => [key, times[key] ?? 0] as const),
    ['crowd', crowd] as const,
  ];
  const byMs = groupBy(
    all.filter(([, ms]) => ms > 0),
    ([, ms]) => ms,
  );
  return [...byMs].map(([ms, keys]) => `${keys.map(([key]) => key).join(' ')} ${ms}`).join(', ');
}
