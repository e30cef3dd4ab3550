import type { Results, ScenarioResult, SideResult } from '../results.js';

/** One row for each scenario and peer. */
export function resultsTable({ scenarios }: Results): string {
  const rows = scenarios.flatMap(({ name, title, peers, ours }) =>
    peers.map((peer, i) => [
      i === 0 ? `[${title}](#${name})` : '',
      `${peer.library} ${peer.version}`,
      `${mark(peer)} ${peer.outcome.figure}`,
      i === 0 ? `${mark(ours)} ${ours.outcome.figure}` : '',
    ]),
  );
  return table([['what happens', 'peer', 'its outcome', 'ours'], ...rows]);
}

/** For each scenario: what was done, with which settings, and what the caller saw. */
export function details({ scenarios }: Results): string {
  return scenarios.map(detailsOf).join('\n\n');
}

function detailsOf({ name, workload, peers, ours }: ScenarioResult): string {
  const rows = [...peers, ours].map((side) => [
    `${side.library} ${side.version}`,
    [side.settings, side.note ?? ''].join(' ').trim(),
    `${mark(side)} ${side.outcome.figure}. ${side.outcome.words}`,
  ]);
  return `### ${name}\n\n${workload}\n\n${table([['', 'settings', 'outcome'], ...rows])}`;
}

function mark({ outcome }: SideResult): string {
  return outcome.holds ? '✓' : '✗';
}

function table([head = [], ...rows]: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.map(cell).join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

/** A cell is one line, in which only backquotes are marks. */
function cell(text: string): string {
  return text
    .replaceAll(/\s+/g, ' ')
    .split(/(`[^`]*`|\[[^\]]*\]\(#[^)]*\))/)
    .map((part, i) => (i % 2 === 1 ? part : part.replaceAll(/[[\]<>*_]/g, '\\$&')))
    .join('')
    .replaceAll('|', '\\|');
}
