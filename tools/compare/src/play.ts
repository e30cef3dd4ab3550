import { ChildProgram } from 'kit';
import { fileURLToPath } from 'node:url';
import { isExpected, markedFigure } from './expectation.js';
import { installedPackage } from './packages.js';
import type { NamedScenario, ScenarioResult } from './results.js';
import type { Outcome, PlayedSide } from './scenario.js';

const PROGRAM = fileURLToPath(new URL('./side-process.js', import.meta.url));
const REPEATS = 3;
const STARTS = 3;
const START_LIMIT_MS = 60_000;

/** What came out of one scenario, and what of it is not what is written down. */
export interface Played {
  readonly result: ScenarioResult;
  /** A line each; empty if everything is as expected. */
  readonly surprises: readonly string[];
}

/** All sides in turn, then all of them again: none is in the other's way, and each has the same number of runs. */
export async function play(scenario: NamedScenario): Promise<Played> {
  const { name, title, workload, sides, limitMs = 30_000, repeats = REPEATS } = scenario;
  const runs = sides.map((): Outcome[] => []);
  for (let i = 0; i < repeats; i += 1) {
    for (const [n, side] of sides.entries()) runs[n]?.push(await outcomeOf(name, side, limitMs));
  }
  const results = sides.map(({ library: alias, variant, settings, note }, n) => {
    const { name: library, version } = installedPackage(alias);
    return { library, version, variant, settings, note, runs: runs[n] ?? [] };
  });
  const surprises = sides.flatMap((side, n) => surprisesOf(side, runs[n] ?? []));
  return { result: { name, title, workload, sides: results }, surprises };
}

function surprisesOf(
  { library, variant, expected }: PlayedSide<unknown>,
  runs: readonly Outcome[],
): string[] {
  const side = variant === undefined ? library : `${library} (${variant})`;
  const wanted = [expected].flat().join("' or '");
  return runs
    .filter((outcome) => !isExpected(outcome, expected))
    .map((it) => `${side}: '${wanted}' was expected, not '${markedFigure(it)}'. ${it.words}`);
}

/** A run that did not even begin says nothing about its side. It is begun again. */
async function outcomeOf(
  name: string,
  side: PlayedSide<unknown>,
  limitMs: number,
): Promise<Outcome> {
  let outcome: Outcome | NotBegun = { notBegun: '' };
  for (let i = 0; i < STARTS && 'notBegun' in outcome; i += 1) {
    outcome = await runOnce(name, side, limitMs);
  }
  return 'notBegun' in outcome ? { figure: 'did not begin', words: outcome.notBegun } : outcome;
}

interface NotBegun {
  readonly notBegun: string;
}

/** A process that dies and a process that hangs have an outcome, too. */
async function runOnce(
  name: string,
  { library, variant }: PlayedSide<unknown>,
  limitMs: number,
): Promise<Outcome | NotBegun> {
  const side = new ChildProgram<never, Outcome | 'begun'>(PROGRAM, {
    args: [name, library, ...(variant === undefined ? [] : [variant])],
    execArgv: ['--disable-warning=ExperimentalWarning'],
    stdout: 'ignore',
    stderr: 'pipe',
  });
  let hasBegun = false;
  let outcome: Outcome | undefined;
  const begun = new Promise<void>((resolve) => {
    side.onMessage((message) => {
      if (message !== 'begun') return (outcome = message);
      hasBegun = true;
      resolve();
    });
  });
  // On a busy machine, it may take long to begin.
  await Promise.race([begun, side.endsWithin(START_LIMIT_MS + limitMs)]);
  const how = await side.endsWithin(limitMs);
  if (outcome !== undefined) return outcome;
  const words = `The process died: ${errorLine(side.output)}`;
  if (!hasBegun) return { notBegun: how === 'SIGKILL' ? 'It took too long.' : words };
  if (how === 'SIGKILL') {
    const limit = `${limitMs / 1_000} s`;
    return { holds: false, figure: 'hangs', words: `There was no answer within ${limit}.` };
  }
  return { holds: false, figure: how, words };
}

/** The line that names the error which ended a process. */
function errorLine(errors: string): string {
  const line = errors.split('\n').find((text) => /^\s*\[?\w*(?:Error|Exception)\b/.test(text));
  return (line ?? errors.trim().split('\n').at(-1) ?? '').trim().slice(0, 300);
}
