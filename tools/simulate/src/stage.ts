import { SeededRandom } from 'kit';
import type { LockStore } from '../../../libs/nestjs-locked/dist/modules/core/store/lock-store.js';
import { RedisLockStore } from '../../../libs/nestjs-locked/dist/modules/redis/redis-lock-store.js';
import {
  type DetachedLock,
  SimulatedProcess,
  type StoreNeeds,
} from './application/simulated-process.js';
import { happen } from './faults.js';
import { History } from './history.js';
import { Machine } from './network/machine.js';
import { ServerHost } from './network/server-host.js';
import { isOfOne, type Plan, type PlannedFault, type PlannedProcess } from './plan.js';
import type { Breaks } from './server/breaks.js';
import type { LuaScripts } from './server/lua-scripts.js';
import { beginWorld } from './world/virtual-node.js';
import type { VirtualTime } from './world/virtual-time.js';

/** One world: a server, or several, the processes that have started, and what has happened. */
export class Stage {
  readonly history: History;
  readonly servers: readonly ServerHost[];
  readonly processes: SimulatedProcess[] = [];
  readonly #seed: number;

  constructor(
    readonly time: VirtualTime,
    plan: Plan,
    scripts: LuaScripts,
    breaks?: Breaks,
  ) {
    const { seed, processes, faults, isQuiet = false } = plan;
    beginWorld(time, seed);
    this.#seed = seed;
    this.history = new History(time);
    if (isQuiet) this.history.tell({ type: 'quiet network' });
    // The specification has no readers, no permits, and no lock that goes on elsewhere.
    const calls = processes.flatMap((process) => process.calls);
    const unknown = calls.filter(({ mode, permits, handOff }) => mode ?? permits ?? handOff);
    for (const key of new Set(unknown.flatMap((call) => call.keys)))
      this.history.tell({ type: 'unspecified', key });
    this.servers = this.serversOf(plan, scripts, breaks);
    processes.forEach((planned, i) => {
      time.plan(planned.startMs, () => this.start(planned, i + 1));
    });
    for (const fault of faults) time.plan(fault.atMs, () => this.happen(fault));
  }

  /** The only one. */
  get server(): ServerHost {
    return this.servers[0] as ServerHost;
  }

  protected serversOf(
    { isQuiet = false }: Plan,
    scripts: LuaScripts,
    breaks?: Breaks,
  ): readonly ServerHost[] {
    const machine = this.machine('redis', 0);
    return [new ServerHost(machine, scripts, this.history, isQuiet, breaks?.(0))];
  }

  /** How a process keeps its locks there. */
  protected storeOf({ clients, clock, plan: { leaseMs, fenceKeepMs } }: StoreNeeds): LockStore {
    const [client] = clients;
    return new RedisLockStore({
      client,
      clock,
      keyPrefix: 'lock:',
      leaseMs,
      ...(fenceKeepMs === undefined ? {} : { fenceKeepMs }),
      closeClient: async () => {},
    });
  }

  protected happen(fault: PlannedFault): void {
    const { what } = fault;
    if (isOfOne(what)) happen({ ...fault, what }, this);
  }

  /** @param stream of random numbers: one for each machine */
  start(planned: PlannedProcess, stream: number): void {
    const machine = this.machine(planned.name, stream);
    const process = new SimulatedProcess(machine, this.servers, this.history, planned, {
      storeOf: (needs) => this.storeOf(needs),
      pass: this.#pass,
    });
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

  protected machine(name: string, stream: number): Machine {
    return new Machine(name, this.time, new SeededRandom(this.#seed * 31 + stream));
  }
}
