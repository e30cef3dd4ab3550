import type { HistoryLine } from 'check-history';
import { SeededRandom } from 'kit';
import { SimulatedProcess } from './application/simulated-process.js';
import { happen } from './faults.js';
import { History } from './history.js';
import { Machine } from './network/machine.js';
import { ServerHost } from './network/server-host.js';
import type { Plan } from './plan.js';
import type { BreakName } from './server/breaks.js';
import type { LuaScripts } from './server/lua-scripts.js';
import { beginWorld } from './world/virtual-node.js';
import { VirtualTime } from './world/virtual-time.js';

/** How long what has been disturbed may take to be as before: the longest waits, leases and limits are over. */
const RECOVERY_MS = 30_000;
/** The time for the last calls, after that. */
const LAST_CALLS_MS = 25_000;

/** Plays a plan in a world of its own. The same plan always gives the same history. */
export async function runHistory(
  plan: Plan,
  scripts: LuaScripts,
  breaks?: BreakName,
): Promise<readonly HistoryLine[]> {
  const time = new VirtualTime();
  beginWorld(time, plan.seed);
  const history = new History(time);
  const machine = (name: string, stream: number): Machine =>
    new Machine(name, time, new SeededRandom(plan.seed * 31 + stream));
  const server = new ServerHost(machine('redis', 0), scripts, history, breaks);
  const processes: SimulatedProcess[] = [];
  plan.processes.forEach((planned, i) => {
    time.plan(planned.startMs, () => {
      const process = new SimulatedProcess(machine(planned.name, i + 1), server, history, planned);
      processes.push(process);
      process.start();
    });
  });
  for (const fault of plan.faults) {
    time.plan(fault.atMs, () => happen(fault, { server, processes, history }));
  }
  await time.runUntil(plan.calmAtMs + RECOVERY_MS);
  history.tell({ type: 'calm' });
  askForEveryKey(plan, processes);
  await time.runUntil(time.now + LAST_CALLS_MS);
  for (const process of processes) process.machine.run(() => void process.close());
  await time.runUntil(time.now + 10_000);
  return history.lines;
}

/** Each process that is left must get each key in its turn. */
function askForEveryKey(
  { processes: planned }: Plan,
  processes: readonly SimulatedProcess[],
): void {
  const keys = [...new Set(planned.flatMap(({ calls }) => calls.flatMap((call) => call.keys)))];
  for (const process of processes) {
    if (process.isClosing) continue;
    for (const key of keys) {
      const last = { kind: 'withLock', keys: [key], waitMs: 20_000, workMs: 5 } as const;
      process.machine.after(1, () => {
        void process.call({ ...last, name: `last ${key}`, atMs: 0, abortMs: 0 });
      });
    }
  }
}
