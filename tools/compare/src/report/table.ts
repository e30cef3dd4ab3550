import { markdownTable } from 'kit';
import type { PackageFacts } from '../package-facts.js';
import type { Results, ScenarioResult, SideResult } from '../results.js';

/** Which libraries fail in each scenario, and which do not. */
export function resultsTable({ scenarios }: Results): string {
  const names = namesOf(scenarios);
  const rows = scenarios.map(({ name, title, peers }) => [
    `[${title}](comparison/results.md#${name})`,
    listOf(peers.filter(({ outcome }) => !outcome.holds).map(names)),
    listOf(peers.filter(({ outcome }) => outcome.holds).map(names)),
  ]);
  return markdownTable(
    ['what happens', '✗', '✓'],
    rows.map((cells) => cells.map(marked)),
  );
}

/** What each package is and needs. Nest and clients of Redis are what the ranges of its peers say. */
export function packagesTable({ packages }: Results): string {
  const rows = packages.map(({ library, version, download, unpacked, dependencies, ...own }) => [
    `${library} ${version}`,
    `${kilobytes(download)} kB`,
    `${kilobytes(unpacked)} kB`,
    listOf(dependencies) || 'none',
    listOf(needsOf(own)) || 'not stated',
  ]);
  return markdownTable(
    ['package', 'download', 'unpacked', 'dependencies', 'needs'],
    rows.map((cells) => cells.map((cell) => cell.replaceAll('||', 'or'))),
  );
}

function needsOf({ peers, optional }: Pick<PackageFacts, 'peers' | 'optional'>): string[] {
  return Object.entries(peers).map(
    ([name, range]) => `${name} \`${range}\`${optional.includes(name) ? ' (optional)' : ''}`,
  );
}

function kilobytes(bytes: number): string {
  return (bytes / 1_000).toFixed(0);
}

/** The version of each library. */
export function versions({ scenarios }: Results): string {
  const all = sidesOf(scenarios).map(({ library, version }) => `${library} ${version}`);
  return listOf([...new Set(all)].sort());
}

/** The settings that a library has in several scenarios, each of which then leaves them out. */
export function usualSettings({ scenarios }: Results): string {
  return [...settingsOf(scenarios)]
    .map(([library, settings]) => `- ${library}: ${marked(settings)}`)
    .join('\n');
}

/** For each scenario: what was done, with which settings, and what the caller saw. */
export function details({ scenarios }: Results): string {
  const names = namesOf(scenarios);
  const usual = settingsOf(scenarios);
  return scenarios.map((scenario) => detailsOf(scenario, names, usual)).join('\n\n');
}

/** Libraries with the same outcome share a line. */
function detailsOf(
  { name, workload, peers, ours }: ScenarioResult,
  names: (side: SideResult) => string,
  usual: ReadonlyMap<string, string>,
): string {
  const lines = new Map<string, string[]>();
  for (const side of [...peers, ours]) {
    const { outcome, library, settings, note = '' } = side;
    const special = usual.get(library) === settings ? '' : settings;
    const text = [`${outcome.figure}.`, outcome.words, special, note].filter(Boolean).join(' ');
    const line = `${outcome.holds ? '✓' : '✗'} ${text}`;
    lines.set(line, [...(lines.get(line) ?? []), names(side)]);
  }
  const items = [...lines].map(
    ([line, libraries]) => `- ${line[0]} ${listOf(libraries)}: ${marked(line.slice(2))}`,
  );
  return `### ${name}\n\n${workload}\n\n${items.join('\n')}`;
}

/** A library by its name, with its version only if it is there in several. */
function namesOf(scenarios: readonly ScenarioResult[]): (side: SideResult) => string {
  const all = sidesOf(scenarios);
  return ({ library, version }) =>
    all.some((side) => side.library === library && side.version !== version)
      ? `${library} ${version}`
      : library;
}

/** The most frequent settings of each library that has the same ones more than twice. */
function settingsOf(scenarios: readonly ScenarioResult[]): Map<string, string> {
  const usual = new Map<string, string>();
  const counts = new Map<string, number>();
  const countOf = (library: string, settings = ''): number =>
    counts.get(`${library} ${settings}`) ?? 0;
  for (const { library, settings } of sidesOf(scenarios)) {
    if (settings === '') continue;
    const count = countOf(library, settings) + 1;
    counts.set(`${library} ${settings}`, count);
    if (count > Math.max(2, countOf(library, usual.get(library)))) usual.set(library, settings);
  }
  return usual;
}

function sidesOf(scenarios: readonly ScenarioResult[]): SideResult[] {
  return scenarios.flatMap(({ peers, ours }) => [...peers, ours]);
}

function listOf(names: readonly string[]): string {
  return names.join(', ');
}

/** Text of one line, in which only backquotes and links are marks. */
function marked(text: string): string {
  return text
    .replaceAll(/\s+/g, ' ')
    .split(/(`[^`]*`|\[[^\]]*\]\([^)]*\))/)
    .map((part, i) => (i % 2 === 1 ? part : part.replaceAll(/[[\]<>*_]/g, '\\$&')))
    .join('');
}
