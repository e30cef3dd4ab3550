import { checkHistory, type Finding, type HistoryLine } from 'check-history';
import type { SimulateOptions } from './options.js';
import { type Plan, planOf } from './plan.js';
import { runHistory } from './run-history.js';
import { LuaScripts } from './server/lua-scripts.js';
import { shorten } from './shorten.js';

const HOUR_SECONDS = 3_600;

/** Plays one seed after the other until the first finding. @returns whether there was none */
export async function runCampaign(options: SimulateOptions): Promise<boolean> {
  const { seed: first, histories, hours = Infinity, breaks, print } = options;
  const scripts = await LuaScripts.create();
  const linesOf = (plan: Plan): Promise<readonly HistoryLine[]> =>
    runHistory(plan, scripts, breaks);
  const startedAt = secondsNow();
  let virtualMs = 0;
  let count = 0;
  for (; count < histories && secondsNow() - startedAt < hours * HOUR_SECONDS; count += 1) {
    const plan = planOf(first + count);
    const lines = await linesOf(plan);
    if (print) for (const line of lines) console.log(JSON.stringify(line));
    const [finding] = checkHistory(lines);
    if (finding !== undefined) {
      await show(plan, finding, linesOf);
      return false;
    }
    virtualMs += lines.at(-1)?.at ?? 0;
  }
  if (!print) {
    const seconds = Math.round(secondsNow() - startedAt);
    const virtual = Math.round(virtualMs / 1_000);
    console.log(
      `${count} histories from seed ${first} on: nothing found (${virtual} s of virtual time in ${seconds} s)`,
    );
  }
  return true;
}

async function show(
  plan: Plan,
  { rule }: Finding,
  linesOf: (plan: Plan) => Promise<readonly HistoryLine[]>,
): Promise<void> {
  const findingOf = (lines: readonly HistoryLine[]): Finding | undefined =>
    checkHistory(lines).find((other) => other.rule === rule);
  const short = await shorten(plan, async (other) => findingOf(await linesOf(other)) !== undefined);
  const lines = await linesOf(short);
  const finding = findingOf(lines);
  console.log(`seed ${plan.seed}: ${rule}: ${finding?.text}\n`);
  for (const { what, atMs, forMs } of short.faults) {
    console.log(`fault after ${atMs} ms, for ${Math.round(forMs)} ms: ${what}`);
  }
  for (const line of lines) {
    if (line.type !== 'effect' && line.at <= (finding?.at ?? 0)) console.log(JSON.stringify(line));
  }
}

/** The time of the real world, unlike `performance.now()` here. */
function secondsNow(): number {
  return Number(process.hrtime.bigint() / 1_000_000n) / 1_000;
}
