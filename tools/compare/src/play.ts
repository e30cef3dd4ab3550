import { installedPackage } from './packages.js';
import type { ScenarioResult, SideResult } from './results.js';
import { OURS, runSide } from './run-side.js';
import { DEFAULT_LIMIT_MS, type Side } from './scenario.js';
import type { NamedScenario } from './scenarios.js';

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
  { name, limitMs = DEFAULT_LIMIT_MS }: NamedScenario,
  alias: string,
  { settings, note }: Side<unknown>,
): Promise<SideResult> {
  const { name: library, version } = installedPackage(alias);
  return { library, version, settings, note, outcome: await runSide(name, alias, limitMs) };
}
