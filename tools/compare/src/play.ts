import { ChildProgram } from 'kit';
import { fileURLToPath } from 'node:url';
import { installedPackage, OURS } from './packages.js';
import type { NamedScenario, ScenarioResult, SideResult } from './results.js';
import type { Outcome, Side } from './scenario.js';

const PROGRAM = fileURLToPath(new URL('./side-process.js', import.meta.url));

/** All sides of a scenario, one after the other, so that none is in the other's way. */
export async function play(scenario: NamedScenario): Promise<ScenarioResult> {
  const { name, title, workload } = scenario;
  const peers: SideResult[] = [];
  for (const peer of scenario.peers) peers.push(await playSide(scenario, peer.library, peer));
  return { name, title, workload, peers, ours: await playOurs(scenario) };
}

/** Our side fails the whole run. So it is played once more before that counts: the machine may have stood still. */
export async function playOurs(scenario: NamedScenario): Promise<SideResult> {
  const first = await playSide(scenario, OURS, scenario.ours);
  return first.outcome.holds ? first : playSide(scenario, OURS, scenario.ours);
}

async function playSide(
  { name, limitMs = 30_000 }: NamedScenario,
  alias: string,
  { settings, note }: Side<unknown>,
): Promise<SideResult> {
  const { name: library, version } = installedPackage(alias);
  return { library, version, settings, note, outcome: await outcomeOf(name, alias, limitMs) };
}

/** A process that dies and a process that hangs have an outcome, too. */
async function outcomeOf(name: string, alias: string, limitMs: number): Promise<Outcome> {
  const side = new ChildProgram<never, Outcome>(PROGRAM, {
    args: [name, alias],
    execArgv: ['--disable-warning=ExperimentalWarning'],
    stdout: 'ignore',
    stderr: 'pipe',
  });
  let outcome: Outcome | undefined;
  side.onMessage((message) => (outcome = message));
  const how = await side.endsWithin(limitMs);
  if (outcome !== undefined) return outcome;
  if (how === 'SIGKILL') {
    const limit = `${limitMs / 1_000} s`;
    return { holds: false, figure: 'hangs', words: `There was no answer within ${limit}.` };
  }
  return { holds: false, figure: how, words: `The process died: ${errorLine(side.output)}` };
}

/** The line that names the error which ended a process. */
function errorLine(errors: string): string {
  const line = errors.split('\n').find((text) => /^\s*(\w*Error\b|\[\w*Error)/.test(text));
  return (line ?? errors.trim().split('\n').at(-1) ?? '').trim().slice(0, 300);
}
