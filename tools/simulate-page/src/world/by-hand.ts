import type { SimulatedProcess } from '../../../simulate/dist/application/simulated-process.js';
import { kill, pause, restart, resume } from '../../../simulate/dist/faults.js';
import type { Plan } from '../../../simulate/dist/plan.js';
import type { Stage } from '../../../simulate/dist/stage.js';
import type { Action } from '../view.js';

/** How long the server is away when it restarts, and until a replica has taken over. */
const RESTART_MS = 300;
const FAILOVER_MS = 600;
/** How far the replica lags behind that takes over. */
const LAG_MS = 50;
/** Each process that is started again has random numbers of its own. */
const STREAMS = 100;

/** Does what was done by hand, and keeps what stays so: who is cut off. */
export class ByHand {
  readonly #cut = new Set<string>();

  constructor(
    readonly stage: Stage,
    readonly plan: Plan,
  ) {}

  isCut(name: string): boolean {
    return this.#cut.has(name);
  }

  /** The present process of this name; the one before may be dead. */
  process(name: string): SimulatedProcess | undefined {
    return this.stage.processes.findLast(({ machine }) => machine.name === name);
  }

  /** Does nothing where there is nothing to do, such as to pause what is dead. */
  act({ what, process: name = '' }: Action): void {
    const { stage } = this;
    const process = this.process(name);
    const isAlive = process?.machine.isDead === false;
    switch (what) {
      case 'kill':
        if (isAlive) kill(process, stage, true);
        return;
      case 'start':
        if (process?.machine.isDead === true) this.#start(name);
        return;
      case 'pause':
        if (isAlive && !process.machine.isPaused) pause(process, stage);
        return;
      case 'resume':
        if (isAlive && process.machine.isPaused) resume(process, stage);
        return;
      case 'cut':
        this.#cut.add(name);
        stage.history.tell({ type: 'disturbed', what: `${name} is cut off` });
        return this.keep();
      case 'restore':
        if (!this.#cut.delete(name)) return;
        for (const connection of process?.client.connections ?? []) connection.heal();
        return stage.history.tell({ type: 'disturbed', what: `${name} is connected again` });
      case 'restart':
        return restart(stage, 'restart with its data', 0, RESTART_MS);
      case 'lose':
        return restart(stage, 'restart without data', Infinity, RESTART_MS);
      case 'failover':
        return restart(stage, 'fail over to a replica', LAG_MS, FAILOVER_MS);
    }
  }

  /** New connections of a process that is cut off do not get through either. */
  keep(): void {
    for (const name of this.#cut) {
      for (const connection of this.process(name)?.client.connections ?? []) connection.part();
    }
  }

  /** It makes the calls that are still to come. */
  #start(name: string): void {
    const { stage, plan } = this;
    const i = plan.processes.findIndex((planned) => planned.name === name);
    const planned = plan.processes[i];
    if (planned === undefined) return;
    const { now } = stage.time;
    const calls = planned.calls
      .map((call) => ({ ...call, atMs: planned.startMs + call.atMs - now }))
      .filter(({ atMs }) => atMs > 0);
    stage.history.tell({ type: 'disturbed', what: `${name} is started again` });
    stage.start({ ...planned, calls }, i + 1 + STREAMS * stage.processes.length);
  }
}
