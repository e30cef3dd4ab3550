import type { HistoryLine } from 'check-history';
import { type Finding, findingsIn, type JudgeName } from './judges.js';
import { type Plan, planOf } from './plan.js';
import { runHistory } from './run-history.js';
import type { BreakName } from './server/breaks.js';
import { LuaScripts } from './server/lua-scripts.js';
import { shorten } from './shorten.js';

/** Some of the histories of a campaign. */
export interface Share {
  readonly firstSeed: number;
  /** From one seed to the next, because other threads play those in between. */
  readonly step: number;
  readonly histories: number;
  /** After how much real time no further history is begun. */
  readonly forMs: number;
  readonly breaks: BreakName | undefined;
  readonly print: boolean;
  readonly judges: readonly JudgeName[];
}

export type Played =
  /** The events are there if they are to be printed. */
  | { readonly kind: 'clean'; readonly virtualMs: number; readonly events: readonly string[] }
  | { readonly kind: 'found'; readonly text: string };

/** Plays one seed after the other until the first finding. */
export async function playSeeds(share: Share, tell: (played: Played) => void): Promise<void> {
  const { firstSeed, step, histories, forMs, breaks, print, judges } = share;
  const scripts = await LuaScripts.create();
  const linesOf = (plan: Plan): Promise<readonly HistoryLine[]> =>
    runHistory(plan, scripts, breaks);
  const startedAt = realMs();
  for (let i = 0; i < histories && realMs() - startedAt < forMs; i += 1) {
    const plan = planOf(firstSeed + i * step);
    const lines = await linesOf(plan);
    const [finding] = findingsIn(lines, judges);
    if (finding !== undefined) {
      return tell({ kind: 'found', text: await shownShortly(plan, finding, linesOf, judges) });
    }
    const events = print ? lines.map((line) => JSON.stringify(line)) : [];
    tell({ kind: 'clean', virtualMs: lines.at(-1)?.at ?? 0, events });
  }
}

/** The history of the least plan that still leads to a finding of this rule. */
async function shownShortly(
  plan: Plan,
  { rule }: Finding,
  linesOf: (plan: Plan) => Promise<readonly HistoryLine[]>,
  judges: readonly JudgeName[],
): Promise<string> {
  const findingOf = (lines: readonly HistoryLine[]): Finding | undefined =>
    findingsIn(lines, judges).find((other) => other.rule === rule);
  const short = await shorten(plan, async (other) => findingOf(await linesOf(other)) !== undefined);
  const lines = await linesOf(short);
  const finding = findingOf(lines);
  return [
    `seed ${plan.seed}: ${rule}: ${finding?.text}\n`,
    ...short.faults.map(
      ({ what, atMs, forMs }) => `fault after ${atMs} ms, for ${Math.round(forMs)} ms: ${what}`,
    ),
    ...lines
      .filter(({ type, at }) => type !== 'effect' && at <= (finding?.at ?? 0))
      .map((line) => JSON.stringify(line)),
  ].join('\n');
}

/** The time of the real world, unlike `performance.now()` here. */
function realMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
