import { markOf } from '../expectation.js';
import type { SideResult } from '../results.js';
import type { Outcome } from '../scenario.js';

/** Runs of one side that differ in nothing but numbers. */
export interface AlikeRuns {
  readonly count: number;
  readonly holds: boolean | undefined;
  /** With the range of each number that differs. */
  readonly figure: string;
  readonly words: string;
}

/** The most frequent first. */
export function alikeRuns(runs: readonly Outcome[]): AlikeRuns[] {
  const groups = new Map<string, Outcome[]>();
  for (const run of runs) {
    const { holds, figure, words } = run;
    const shape = JSON.stringify([markOf(holds), ...[figure, words].map(withoutNumbers)]);
    groups.set(shape, [...(groups.get(shape) ?? []), run]);
  }
  const alike = [...groups.values()].map((group) => ({
    count: group.length,
    holds: group[0]?.holds,
    figure: withRanges(group.map(({ figure }) => figure)),
    words: withRanges(group.map(({ words }) => words)),
  }));
  return alike.sort((a, b) => b.count - a.count);
}

/** Texts that differ in nothing but numbers, as one: '0.8 s' and '5.6 s' are '0.8 to 5.6 s'. */
export function withRanges(texts: readonly string[]): string {
  const numbers = texts.map((text) => text.match(NUMBER) ?? []);
  let n = 0;
  return (texts[0] ?? '').replaceAll(NUMBER, () => {
    const all = numbers.map((own) => own[n] ?? '').sort((a, b) => Number(a) - Number(b));
    n += 1;
    const [least = '', most = ''] = [all[0], all.at(-1)];
    return least === most ? least : `${least} to ${most}`;
  });
}

/** The mark of a side is ✓ only if all of its runs have it. */
export function markOfSide({ runs }: Pick<SideResult, 'runs'>): '✓' | '✗' | '' {
  const marks = runs.map(({ holds }) => markOf(holds));
  return marks.find((mark) => mark !== '✓') ?? '✓';
}

/** How many of the runs have the mark of the side, unless it is all of them: ' in 2 of 3 runs'. */
export function share(side: Pick<SideResult, 'runs'>): string {
  const count = side.runs.filter(({ holds }) => markOf(holds) === markOfSide(side)).length;
  return count === side.runs.length ? '' : ` in ${count} of ${side.runs.length} runs`;
}

/** What came out, in one line: once for all runs that are alike. */
export function outcomeText(side: Pick<SideResult, 'runs'>): string {
  const alike = alikeRuns(side.runs);
  return alike
    .map(({ count, holds, figure, words }) => {
      const mark = share(side) === '' ? '' : `${markOf(holds)} `;
      const often = alike.length === 1 ? '' : `${count} of ${side.runs.length}: `;
      return `${mark}${often}${figure}. ${words}`.trim();
    })
    .join(' ');
}

/** A library, and what differs from its documented settings. */
export function whoseSide({ library, variant }: SideResult): string {
  return variant === undefined ? library : `${library} (${variant})`;
}

function withoutNumbers(text: string): string {
  return text.replaceAll(NUMBER, '#');
}

const NUMBER = /\d+(?:\.\d+)?/g;
