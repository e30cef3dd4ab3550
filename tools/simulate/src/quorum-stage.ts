import type { LockStore } from '../../../libs/nestjs-locked/dist/modules/core/store/lock-store.js';
import { QuorumLockStore } from '../../../libs/nestjs-locked/dist/modules/redis/quorum/quorum-lock-store.js';
import type { StoreNeeds } from './application/simulated-process.js';
import { ServerHost } from './network/server-host.js';
import type { Plan, PlannedFault, PlannedQuorum } from './plan.js';
import { QuorumFaults } from './quorum-faults.js';
import type { Breaks } from './server/breaks.js';
import type { LuaScripts } from './server/lua-scripts.js';
import { Stage } from './stage.js';
import type { VirtualTime } from './world/virtual-time.js';

/** The random numbers of the nodes are others than those of the processes. */
const FIRST_STREAM = 100;

/** The plan of a history with a quorum. */
export type QuorumPlan = Plan & { readonly quorum: PlannedQuorum };

/** A world with several servers, more than half of which must vote for each lock. */
export class QuorumStage extends Stage {
  readonly quorum: PlannedQuorum;
  readonly #faults: QuorumFaults;

  constructor(time: VirtualTime, plan: QuorumPlan, scripts: LuaScripts, breaks?: Breaks) {
    super(time, plan, scripts, breaks);
    this.quorum = plan.quorum;
    this.#faults = new QuorumFaults(this, plan.processes[0]?.leaseMs ?? 0);
    this.history.tell({ type: 'quorum', size: this.servers.length });
  }

  protected override serversOf(
    plan: Plan,
    scripts: LuaScripts,
    breaks?: Breaks,
  ): readonly ServerHost[] {
    const { isQuiet = false, quorum } = plan as QuorumPlan;
    return quorum.clocksMs.map((aheadMs, i) => {
      const machine = this.machine(`lock-${i + 1}`, FIRST_STREAM + i);
      const server = new ServerHost(machine, scripts, this.history, isQuiet, breaks?.(i), i);
      server.stepClock(aheadMs);
      return server;
    });
  }

  protected override storeOf({ clients, clock, random, plan: { leaseMs } }: StoreNeeds): LockStore {
    const { rejoinAfterMs } = this.quorum;
    return new QuorumLockStore({
      clients,
      clock,
      keyPrefix: 'lock:',
      leaseMs,
      rejoinAfterMs,
      random,
      closeClients: async () => {},
    });
  }

  protected override happen(fault: PlannedFault): void {
    this.#faults.happen(fault);
  }
}
