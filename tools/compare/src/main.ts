import { type CompareOptions, readOptions } from './options.js';
import { type PackageFacts, packageFacts } from './package-facts.js';
import { installedPackage, OURS } from './packages.js';
import { play, type Played } from './play.js';
import { readResults, writePages, writeResults } from './report/files.js';
import { markOfSide, outcomeText, whoseSide } from './report/runs.js';
import type { NamedScenario, Results, ScenarioResult } from './results.js';
import { SCENARIOS } from './scenarios/index.js';
import { redisVersion } from './stage/redis.js';

/** How many scenarios run at a time: most of them wait most of the time. The sides of one never do. */
const AT_ONCE = 6;

try {
  const options = readOptions(process.argv.slice(2));
  process.exitCode = (await compare(options)) ? 0 : 1;
} catch (error) {
  console.error('The comparison could not be run:', error);
  process.exitCode = 1;
}

/** @returns whether every outcome is the one that its scenario expects */
async function compare({
  only,
  list,
  ours,
  once,
  save,
  page,
  packages,
}: CompareOptions): Promise<boolean> {
  const scenarios = await loaded(only);
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
  const chosen = ours ? scenarios.flatMap(onlyOurs) : scenarios;
  const all = await playAll(
    ours || once ? chosen.map((scenario) => ({ ...scenario, repeats: 1 })) : chosen,
  );
  if (save) {
    const results = all.map(({ result }) => result);
    console.log((await writeResults(await toSave(results))).join('\n'));
  }
  return summary(all);
}

async function loaded(names: readonly string[]): Promise<NamedScenario[]> {
  const wanted = Object.entries(SCENARIOS).filter(([name]) => names.includes(name));
  return Promise.all(wanted.map(async ([name, load]) => ({ name, ...(await load()) })));
}

/** What shows that ours does what is expected of it. */
function onlyOurs(scenario: NamedScenario): NamedScenario[] {
  const sides = scenario.sides.filter(({ library }) => library === OURS);
  const isToPlay = sides.length > 0 && scenario.areBothNeeded !== true;
  return isToPlay ? [{ ...scenario, sides }] : [];
}

async function playAll(scenarios: readonly NamedScenario[]): Promise<Played[]> {
  const all: Played[] = [];
  const left = scenarios.values();
  const playNext = async (): Promise<void> => {
    for (const scenario of left) {
      const played = await play(scenario);
      tell(played.result);
      all.push(played);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, playNext));
  return all;
}

function tell({ name, title, workload, sides }: ScenarioResult): void {
  console.log(`\n${name}: ${title}\n  ${workload}`);
  for (const side of sides) {
    console.log(
      `  ${whoseSide(side)} ${side.version}: ${`${markOfSide(side)} ${outcomeText(side)}`.trimStart()}`,
    );
    console.log(`      ${[side.settings, side.note ?? ''].join(' ').trim()}`);
  }
}

function summary(all: readonly Played[]): boolean {
  const surprises = all.flatMap(({ result: { name }, surprises }) =>
    surprises.map((line) => `${name}: ${line}`),
  );
  console.log(`\n${all.length} scenarios, ${surprises.length} unexpected outcomes`);
  for (const line of surprises) console.error(`UNEXPECTED ${line}`);
  return surprises.length === 0;
}

/** What was not played this time stays as it was saved. */
async function toSave(played: readonly ScenarioResult[]): Promise<Results> {
  const names = Object.keys(SCENARIOS);
  const saved = played.length === names.length ? undefined : readResults();
  const known = [...played, ...(saved?.scenarios ?? [])];
  return {
    date: new Date().toISOString().slice(0, 10),
    node: process.versions.node,
    redis: await redisVersion(),
    nest: installedPackage('@nestjs/core').version,
    scenarios: names.flatMap((name) => known.find((result) => result.name === name) ?? []),
    notPlayed: names.filter((name) => known.every((result) => result.name !== name)),
    packages: saved?.packages ?? (await allPackages()),
  };
}

/** Those of all scenarios, one after the other: npm asks the registry for each. */
async function allPackages(): Promise<PackageFacts[]> {
  const peers = (await loaded(Object.keys(SCENARIOS)))
    .flatMap(({ sides }) => sides.map(({ library }) => library))
    .filter((library) => library !== OURS);
  const facts: PackageFacts[] = [];
  for (const alias of [OURS, ...[...new Set(peers)].sort()]) facts.push(await packageFacts(alias));
  return facts;
}
