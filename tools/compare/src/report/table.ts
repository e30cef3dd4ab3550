import { markdownTable } from 'kit';
import type { PackageFacts } from '../package-facts.js';
import { OURS } from '../packages.js';
import type { Results, ScenarioResult, SideResult } from '../results.js';
import { alikeRuns, markOfSide, outcomeText, share } from './runs.js';

/** Who fails and who does not, where that can be said. Those in which ours fails come first. */
export function resultsTable({ scenarios }: Results): string {
  const names = namesOf(scenarios);
  const judged = scenarios.filter(isCompared).filter(isJudged);
  const lost = judged.filter((scenario) => !doesOursHold(scenario));
  const rows = [...lost, ...judged.filter(doesOursHold)].map((scenario) => {
    const peers = scenario.sides.filter(({ library }) => library !== OURS);
    const marked = (wanted: string): string =>
      listOf(
        peers
          .filter((side) => markOfSide(side) === wanted)
          .map((side) => `${names(side)}${share(side)}`),
      );
    return [linkTo(scenario), ourCell(scenario), marked('✗'), marked('✓')];
  });
  return tableOf(['what happens', OURS, '✗', '✓'], rows);
}

/** What each does where none of it is a fault. */
export function choicesTable({ scenarios }: Results): string {
  const names = namesOf(scenarios);
  const choices = scenarios.filter(isCompared).filter((scenario) => !isJudged(scenario));
  const rows = choices.flatMap(({ sides, ...scenario }) => {
    const lines = new Map<string, string[]>();
    for (const side of sides) {
      const line = alikeRuns(side.runs).map(({ figure }) => figure);
      lines.set(listOf(line), [...(lines.get(listOf(line)) ?? []), names(side)]);
    }
    return [...lines].map(([line, libraries], i) => [
      i === 0 ? linkTo(scenario) : '',
      line,
      listOf(libraries),
    ]);
  });
  return tableOf(['what happens', 'what comes out', 'with'], rows);
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
export function details({ scenarios, notPlayed }: Results): string {
  const names = namesOf(scenarios);
  const usual = settingsOf(scenarios);
  return [
    ...scenarios.map((scenario) => detailsOf(scenario, names, usual)),
    ...notPlayed.map((name) => `### ${name}\n\nNot played yet: nothing is known of it.`),
  ].join('\n\n');
}

/** Sides with the same outcome share a line. */
function detailsOf(
  { name, workload, sides }: ScenarioResult,
  names: (side: SideResult) => string,
  usual: ReadonlyMap<string, string>,
): string {
  const lines = new Map<string, string[]>();
  for (const side of sides) {
    const { library, settings, note = '' } = side;
    const special = usual.get(library) === settings ? '' : settings;
    const text = [outcomeText(side), special, note].filter(Boolean).join(' ');
    const key = JSON.stringify([markOfSide(side), text]);
    lines.set(key, [...(lines.get(key) ?? []), names(side)]);
  }
  const items = [...lines].map(([key, libraries]) => {
    const [mark, text] = JSON.parse(key) as [string, string];
    return `- ${`${mark} ${listOf(libraries)}`.trimStart()}: ${marked(text)}`;
  });
  const runs = sides[0]?.runs.length ?? 0;
  const often = runs === 1 ? 'Each side once.' : `Each side ${runs} times.`;
  return `### ${name}\n\n${workload} ${often}\n\n${items.join('\n')}`;
}

/** Whether more than one library was played: ours alone is no comparison. */
function isCompared({ sides }: ScenarioResult): boolean {
  return new Set(sides.map(({ library }) => library)).size > 1;
}

function isJudged(scenario: ScenarioResult): boolean {
  return scenario.sides.some((side) => markOfSide(side) !== '');
}

/** With the settings that it has by default or by its documentation. */
function doesOursHold({ sides }: ScenarioResult): boolean {
  const ours = sides.filter(({ library }) => library === OURS);
  return ours.every((side) => markOfSide(side) === '✓' || side.variant !== undefined);
}

function ourCell({ sides }: ScenarioResult): string {
  const ours = sides.filter(({ library }) => library === OURS);
  if (ours.length === 0) return '–';
  return ours
    .map((side) => {
      const cell = `${markOfSide(side)}${share(side)}`;
      return side.variant === undefined ? cell : `${cell} (${side.variant})`;
    })
    .join(', ');
}

/** A library by its name, with its version only if it is there in several, and with what is special about the side. */
function namesOf(scenarios: readonly ScenarioResult[]): (side: SideResult) => string {
  const all = sidesOf(scenarios);
  return ({ library, version, variant }) => {
    const isOneOfSeveral = all.some((it) => it.library === library && it.version !== version);
    const name = isOneOfSeveral ? `${library} ${version}` : library;
    return variant === undefined ? name : `${name} (${variant})`;
  };
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
  return scenarios.flatMap(({ sides }) => sides);
}

function linkTo({ name, title }: Pick<ScenarioResult, 'name' | 'title'>): string {
  return `[${title}](comparison/results.md#${name})`;
}

function tableOf(head: readonly string[], rows: readonly (readonly string[])[]): string {
  return markdownTable(
    head,
    rows.map((cells) => cells.map(marked)),
  );
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
