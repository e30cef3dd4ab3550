import { type CompareOptions, readOptions } from './options.js';
import { type PackageFacts, packageFacts } from './package-facts.js';
import { installedPackage, OURS } from './packages.js';
import { play, playOurs } from './play.js';
import { readResults, writePages, writeResults } from './report/files.js';
import type { NamedScenario, Results, ScenarioResult, SideResult } from './results.js';
import { SCENARIOS } from './scenarios/index.js';
import { redisVersion } from './stage/redis.js';

try {
  const options = readOptions(process.argv.slice(2));
  process.exitCode = (await compare(options)) ? 0 : 1;
} catch (error) {
  console.error('The comparison could not be run:', error);
  process.exitCode = 1;
}

/** @returns whether our side did what it should in every scenario */
async function compare({
  only,
  list,
  ours,
  save,
  page,
  packages,
}: CompareOptions): Promise<boolean> {
  const scenarios = Object.entries(SCENARIOS)
    .filter(([name]) => only.includes(name))
    .map(([name, scenario]) => ({ name, ...scenario }));
  if (list) {
    for (const { name, title } of scenarios) console.log(`${name.padEnd(34)} ${title}`);
    return true;
  }
  if (page) {
    console.log((await writePages(readResults())).join('\n'));
    return true;
  }
  if (packages) {
    const saved = { ...readResults(), packages: await allPackages() };
    console.log((await writeResults(saved)).join('\n'));
    return true;
  }
  if (ours) return playAllOurs(scenarios);
  const results: ScenarioResult[] = [];
  for (const scenario of scenarios) {
    const result = await play(scenario);
    tell(result);
    results.push(result);
  }
  if (save) console.log((await writeResults(await toSave(results))).join('\n'));
  return summary(results.map((result) => [result.name, result.ours]));
}

/** A few at a time, because most of them wait most of the time. */
async function playAllOurs(scenarios: readonly NamedScenario[]): Promise<boolean> {
  const results: [string, SideResult][] = [];
  const left = scenarios.filter(({ areBothNeeded = false }) => !areBothNeeded).values();
  const playNext = async (): Promise<void> => {
    for (const scenario of left) {
      const side = await playOurs(scenario);
      console.log(`${scenario.name}: ${sideLine(side)}`);
      results.push([scenario.name, side]);
    }
  };
  await Promise.all([playNext(), playNext(), playNext()]);
  return summary(results);
}

function tell({ name, title, workload, peers, ours }: ScenarioResult): void {
  console.log(`\n${name}: ${title}\n  ${workload}`);
  for (const side of [...peers, ours]) {
    console.log(`  ${side.library} ${side.version}: ${sideLine(side)}`);
    console.log(`      ${[side.settings, side.note ?? ''].join(' ').trim()}`);
  }
}

function sideLine({ outcome }: SideResult): string {
  return `${outcome.holds ? '✓' : '✗'} ${outcome.figure}. ${outcome.words}`.trimEnd();
}

function summary(sides: readonly (readonly [name: string, side: SideResult])[]): boolean {
  const failed = sides.filter(([, { outcome }]) => !outcome.holds).map(([name]) => name);
  console.log(`\n${sides.length} scenarios, ${failed.length} in which our side failed`);
  for (const name of failed) console.error(`FAILED: ${name}`);
  return failed.length === 0;
}

/** What was not played this time stays as it was saved. */
async function toSave(played: readonly ScenarioResult[]): Promise<Results> {
  const names = Object.keys(SCENARIOS);
  const saved = played.length === names.length ? [] : readResults().scenarios;
  const known = [...played, ...saved];
  return {
    date: new Date().toISOString().slice(0, 10),
    node: process.versions.node,
    redis: await redisVersion(),
    nest: installedPackage('@nestjs/core').version,
    scenarios: names.flatMap((name) => known.find((result) => result.name === name) ?? []),
    packages: await allPackages(),
  };
}

/** Those of all scenarios, one after the other: npm asks the registry for each. */
async function allPackages(): Promise<PackageFacts[]> {
  const peers = Object.values(SCENARIOS).flatMap(({ peers }) =>
    peers.map(({ library }) => library),
  );
  const facts: PackageFacts[] = [];
  for (const alias of [OURS, ...[...new Set(peers)].sort()]) facts.push(await packageFacts(alias));
  return facts;
}
