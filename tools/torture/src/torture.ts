import { SeededRandom } from 'kit';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { check, type Verdict, type Violation } from './checker/check.js';
import { MAIN_PROCESS } from './checker/disturbances.js';
import type { KeyTimes } from './checker/excused-time.js';
import { Crew } from './crew.js';
import { runFaults } from './fault-streams.js';
import type { Scene } from './faults/fault.js';
import { HistoryFile } from './history/history-file.js';
import { monotonicMs } from './history/monotonic-ms.js';
import { CROWD_KEYS, STEADY_KEYS } from './keys.js';
import type { TortureOptions } from './options.js';
import { watchPulse } from './pulse.js';
import { residue } from './residue.js';
import { startStage } from './servers/start-stage.js';
import { watchHeartbeat } from './worker/heartbeat.js';

/** Longer than the check for lost messages, the pause after a foreign holder, and the delays of a busy machine. */
const GAP_MS = 900;
/** Longer than those need that may be served first although they asked later: calls of one process take turns. */
const FAIR_MS = 12_000;
/** If there were more than this, a clean run would say little. */
const EXCUSED_SHARE = 0.1;
/** Less than this is left on a machine that has too much to do. */
const EXCUSED_TIME_SHARE = 0.9;
/** What is granted while sentinels announce a planned failover, which takes a second, is granted by the old master. */
const EXCUSED_SHARE_WITH_SENTINELS = 0.15;
const PRINTED_PER_RULE = 8;
/** The longest wait, and what comes after it. */
const FINISH_LIMIT_MS = 45_000;

/** Runs processes that lock under random faults for a while, and then checks what they saw. @returns the exit code */
export async function torture(options: TortureOptions): Promise<number> {
  const random = new SeededRandom(options.seed);
  const folder = mkdtempSync(join(tmpdir(), 'torture-'));
  const history = new HistoryFile(join(folder, 'history.jsonl'));
  const stage = await startStage(options.stage, random, folder, history);
  // Only the proxy is in this process. Servers that are reached without it do not stand still with it.
  const stopHeartbeat = watchHeartbeat((since, at) => {
    if ('proxy' in stage) history.append({ kind: 'stalled', at, since, process: MAIN_PROCESS });
  });
  const stopPulse = watchPulse(stage, history);
  const crew = new Crew({
    random,
    history,
    stage,
    path: join(folder, 'history.jsonl'),
    kinds: options.kinds,
    without: options.without,
    breaks: options.breaks,
  });
  let isClean = false;
  try {
    await crew.start(options.processes);
    const scene: Scene = {
      random,
      history,
      stage,
      workers: () => crew.workers,
      replace: (worker) => crew.replace(worker),
    };
    // One cause at a time.
    const chosen = options.breaks.length === 0 ? options.faults : new Set<string>();
    const faults = await runFaults(scene, monotonicMs() + options.seconds * 1_000, chosen);
    await crew.finish(FINISH_LIMIT_MS);

    const verdict = check(history.read(), {
      gapMs: GAP_MS,
      fairMs: FAIR_MS,
      excusedShare: stage.kind === 'sentinel' ? EXCUSED_SHARE_WITH_SENTINELS : EXCUSED_SHARE,
      excusedTimeShare: EXCUSED_TIME_SHARE,
    });
    const violations = [...verdict.violations, ...(await residue(stage))];
    console.log(
      `seed ${options.seed}, ${options.seconds} s, ${crew.started} processes, stage ${stage.kind}`,
    );
    print(verdict, faults);
    printViolations(violations);
    isClean = violations.length === 0;
    console.log(isClean ? 'clean' : `${violations.length} violations; the history is in ${folder}`);
    return isClean ? 0 : 1;
  } finally {
    stopPulse();
    stopHeartbeat();
    await crew.stop();
    await stage.stop();
    history.close();
    const isOfInterest = !isClean && options.breaks.length === 0;
    if (!isOfInterest && !options.keep) rmSync(folder, { recursive: true, force: true });
  }
}

function print(verdict: Verdict, faults: Record<string, number>): void {
  const { attempts, holds, excused, lost, refused, kinds, longestWaitMs } = verdict;
  console.log(`faults: ${JSON.stringify(faults)}`);
  console.log(`held: ${JSON.stringify(kinds)}`);
  console.log(`lost: ${JSON.stringify(lost)}, refused: ${JSON.stringify(refused)}`);
  const share = holds === 0 ? 0 : (excused / holds) * 100;
  console.log(
    `${attempts} attempts, ${holds} holds, ${excused} of them excused (${share.toFixed(1)} %), longest wait ${longestWaitMs} ms`,
  );
  printExcusedTime(verdict);
}

/** How much of the run was not judged, and why. Of the keys of crowds, which are many, the worst. */
function printExcusedTime({
  excusedTime: { runMs, byCause, byKey },
  excusedOverlaps,
}: Verdict): void {
  console.log(`waits excused, in ms of ${runMs.toFixed(0)}:`);
  for (const [cause, times] of Object.entries(byCause)) console.log(`  ${cause}: ${listed(times)}`);
  console.log(`  all together: ${listed(byKey)}`);
  if (Object.keys(excusedOverlaps).length > 0) {
    console.log(`two holders excused, in ms: ${listed(excusedOverlaps)}`);
  }
}

/** Keys with the same time stand together. */
function listed(times: KeyTimes): string {
  const crowd = Math.max(0, ...CROWD_KEYS.map((key) => times[key] ?? 0));
  const byMs = new Map<number, string[]>();
  for (const [key, ms = 0] of [
    ...STEADY_KEYS.map((key) => [key, times[key]] as const),
    ['crowd', crowd] as const,
  ]) {
    if (ms > 0) byMs.set(ms, [...(byMs.get(ms) ?? []), key]);
  }
  return [...byMs].map(([ms, keys]) => `${keys.join(' ')} ${ms}`).join(', ');
}

/** Some violations of each rule, because one cause often breaks one rule many times. */
function printViolations(violations: readonly Violation[]): void {
  const left = new Map<string, number>();
  for (const { rule, text } of violations) {
    const seen = (left.get(rule) ?? 0) + 1;
    left.set(rule, seen);
    if (seen <= PRINTED_PER_RULE) console.log(`VIOLATION of ${rule}: ${text}`);
  }
  for (const [rule, seen] of left) {
    if (seen > PRINTED_PER_RULE) console.log(`${seen - PRINTED_PER_RULE} more of ${rule}`);
  }
}
