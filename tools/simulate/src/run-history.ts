import type { HistoryLine } from 'check-history';
import { lastActs } from './last-acts.js';
import type { Plan } from './plan.js';
import { type QuorumPlan, QuorumStage } from './quorum-stage.js';
import type { Breaks } from './server/breaks.js';
import type { LuaScripts } from './server/lua-scripts.js';
import { Stage } from './stage.js';
import { VirtualTime } from './world/virtual-time.js';

/** Plays a plan in a world of its own. The same plan always gives the same history. */
export async function runHistory(
  plan: Plan,
  scripts: LuaScripts,
  breaks?: Breaks,
): Promise<readonly HistoryLine[]> {
  const time = new VirtualTime();
  const stage = isOfQuorum(plan)
    ? new QuorumStage(time, plan, scripts, breaks)
    : new Stage(time, plan, scripts, breaks);
  for (const { atMs, act } of lastActs(plan)) {
    await time.runUntil(atMs);
    act(stage);
  }
  return stage.history.lines;
}

function isOfQuorum(plan: Plan): plan is QuorumPlan {
  return plan.quorum !== undefined;
}
