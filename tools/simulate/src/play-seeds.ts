import type { HistoryLine } from 'check-history';
import { type Finding, findingsIn, type JudgeName } from './judges.js';
import { type Plan, planOf } from './plan.js';
import { planOfQuorum } from './quorum-plan.js';
import { runHistory } from './run-history.js';
import { type BreakName, type Breaks, breaksNamed } from './server/breaks.js';
import { LuaScripts } from './server/lua-scripts.js';
import { type QuorumBreakName, quorumBreaksNamed } from './server/quorum-breaks.js';
import { shorten } from './shorten.js';
import type { AnyBreakName, StageName } from './stages.js';

/** Some of the histories of a campaign. */
export interface Share {
  readonly firstSeed: number;
  /** From one seed to the next, because other threads play those in between. */
  readonly step: number;
  readonly histories: number;
  /** After how much real time no further history is begun. */
  readonly forMs: number;
  readonly stage: StageName;
  readonly breaks: AnyBreakName | undefined;
  readonly print: boolean;
  /** Whether a history with a finding is shown as it was played. */
  readonly isWhole: boolean;
  readonly judges: readonly JudgeName[];
}

export type Played =
  /** The events are there if they are to be printed. */
  | { readonly kind: 'clean'; readonly virtualMs: number; readonly events: readonly string[] }
  | { readonly kind: 'found'; readonly text: string };

/** Plays one seed after the other until the first finding. */
export async function playSeeds(share: Share, tell: (played: Played) => void): Promise<void> {
  const { firstSeed, step, histories, forMs, stage, print, isWhole, judges } = share;
  const breaks = breaksOf(share);
  const scripts = await LuaScripts.create();
  const linesOf = (plan: Plan): Promise<readonly HistoryLine[]> =>
    runHistory(plan, scripts, breaks);
  const startedAt = realMs();
  for (let i = 0; i < histories && realMs() - startedAt < forMs; i += 1) {
    const seed = firstSeed + i * step;
    const plan = stage === 'quorum' ? planOfQuorum(seed) : planOf(seed);
    const lines = await linesOf(plan);
    const [finding] = findingsIn(lines, judges);
    if (finding !== undefined) {
      const text = isWhole
        ? shown(plan, finding, lines)
        : await shownShortly(plan, finding, linesOf, judges);
      return tell({ kind: 'found', text });
    }
    const events = print ? lines.map((line) => JSON.stringify(line)) : [];
    tell({ kind: 'clean', virtualMs: lines.at(-1)?.at ?? 0, events });
  }
}

function breaksOf({ stage, breaks }: Share): Breaks | undefined {
  if (stage === 'quorum') return breaks && quorumBreaksNamed(breaks as QuorumBreakName);
  return breaksNamed(breaks as BreakName | undefined);
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
  return shown(short, findingOf(lines) ?? { rule, at: 0, text: '' }, lines);
}

function shown(plan: Plan, { rule, at, text }: Finding, lines: readonly HistoryLine[]): string {
  return [
    `seed ${plan.seed}: ${rule}: ${text}\n`,
    ...plan.faults.map(
      (fault) => `fault after ${fault.atMs} ms, for ${Math.round(fault.forMs)} ms: ${fault.what}`,
    ),
    ...lines
      .filter((line) => line.type !== 'effect' && line.at <= at)
      .map((line) => JSON.stringify(line)),
  ].join('\n');
}

/** The time of the real world, unlike `performance.now()` here. */
function realMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
