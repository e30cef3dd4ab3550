import { SeededRandom } from 'kit';
import { type DetachedLock, SimulatedProcess } from './application/simulated-process.js';
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
    // The specification has no readers, no permits, and no lock that goes on elsewhere.
    const calls = processes.flatMap((process) => process.calls);
    const unknown = calls.filter(({ mode, permits, handOff }) => mode ?? permits ?? handOff);
    for (const key of new Set(unknown.flatMap((call) => call.keys)))
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
    const process = new SimulatedProcess(machine, this.server, this.history, planned, this.#pass);
    this.processes.push(process);
    process.start();
  }

  /** Brings the text of a lock that was detached to those that are to adopt it. */
  readonly #pass = ({ text, from, keys, adopters }: DetachedLock): void => {
    adopters.forEach((adopter, i) => {
      this.time.plan(adopter.afterMs, () => {
        const process = this.processes.findLast(({ machine }) => machine.name === adopter.process);
        const name = `${i + 1} after ${from}`;
        process?.machine.run(() => void process.adopt(text, { name, from, keys, ...adopter }));
      });
    });
  };

  #machine(name: string, stream: number): Machine {
    return new Machine(name, this.time, new SeededRandom(this.#seed * 31 + stream));
  }
}
