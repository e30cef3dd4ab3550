import { SeededRandom } from 'kit';
import { SimulatedProcess } from './application/simulated-process.js';
import { happen } from './faults.js';
import { History } from './history.js';
import { Machine } from './network/machine.js';
import { ServerHost } from './network/server-host.js';
import type { Plan, PlannedProcess } from './plan.js';
import type { BreakName } from './server/breaks.js';
import type { LuaScripts } from './server/lua-scripts.js';
import { beginWorld } from './world/virtual-node.js';
import type { VirtualTime } from './world/virtual-time.js';

/** One world: a server, the processes that have started, and what has happened. */
export class Stage {
  readonly history: History;
  readonly server: ServerHost;
  readonly processes: SimulatedProcess[] = [];
  readonly #seed: number;

  constructor(
    readonly time: VirtualTime,
    { seed, processes, faults, isQuiet = false }: Plan,
    scripts: LuaScripts,
    breaks?: BreakName,
  ) {
    beginWorld(time, seed);
    this.#seed = seed;
    this.history = new History(time);
    if (isQuiet) this.history.tell({ type: 'quiet network' });
    // The specification has no readers.
    const calls = processes.flatMap((process) => process.calls);
    for (const key of new Set(calls.filter(({ mode }) => mode).flatMap((call) => call.keys)))
      this.history.tell({ type: 'unspecified', key });
    const machine = this.#machine('redis', 0);
    this.server = new ServerHost(machine, scripts, this.history, isQuiet, breaks);
    processes.forEach((planned, i) => {
      time.plan(planned.startMs, () => this.start(planned, i + 1));
    });
    for (const fault of faults) time.plan(fault.atMs, () => happen(fault, this));
  }

  /** @param stream of random numbers: one for each machine */
  start(planned: PlannedProcess, stream: number): void {
    const machine = this.#machine(planned.name, stream);
    const process = new SimulatedProcess(machine, this.server, this.history, planned);
    this.processes.push(process);
    process.start();
  }

  #machine(name: string, stream: number): Machine {
    return new Machine(name, this.time, new SeededRandom(this.#seed * 31 + stream));
  }
}
