import type { SimulatedProcess } from './application/simulated-process.js';
import { happen } from './faults.js';
import type { ServerHost } from './network/server-host.js';
import { isOfOne, type PlannedFault } from './plan.js';
import type { QuorumStage } from './quorum-stage.js';

/** Until everybody has connected again: the longest pause before that, and round trips. */
const RECONNECT_MS = 1_250;
/** The age of a server is known in whole seconds, of which the first and the last have just begun. */
const AGE_MS = 2_000;
/** How far a replica lags behind its master, at least. */
const LEAST_LAG_MS = 5;
const MOST_LAG_MS = 100;

const COMMANDS = ['PUBLISH', 'PUBSUB', 'ZADD', 'SET', 'ZREM'] as const;

/** A key that somebody has, or that is kept for somebody. */
const LOCK = /^lock:\{[^{}]*\}$/;
const OF_SOMEBODY = /^(?:kept:)?[\da-f]+:/;

/** What happens to the nodes of a quorum, and which of them cannot be counted on meanwhile. */
export class QuorumFaults {
  readonly #stage: QuorumStage;
  readonly #longestLeaseMs: number;
  #hasLostNumbers = false;
  /** How far the clocks were apart. */
  #apartMs = 0;

  /** @param leaseMs that of the processes, which may prolong it to twice as much */
  constructor(stage: QuorumStage, leaseMs: number) {
    this.#stage = stage;
    this.#longestLeaseMs = 2 * leaseMs;
    this.#compareClocks();
  }

  happen(fault: PlannedFault): void {
    const { what, forMs, which } = fault;
    const { servers, processes, history, time } = this.#stage;
    const node = servers[which % servers.length] as ServerHost;
    const alive = processes.filter(({ machine }) => !machine.isDead);
    const process = alive[Math.floor(which / 10) % Math.max(1, alive.length)];
    const choice = Math.floor(which / 100);
    if (isOfOne(what)) return happen({ ...fault, what }, this.#stage);
    switch (what) {
      case 'pause a node':
        return this.#pause([node], what, forMs);
      case 'pause most nodes':
        return this.#pause(this.#most(node), what, forMs);
      case 'restart a node':
        return this.#restart([node], what, forMs, 0);
      case 'restart most nodes':
        return this.#restart(this.#most(node), what, forMs, 0);
      case 'empty a node':
        return this.#restart([node], what, forMs, Infinity);
      case 'empty most nodes':
        return this.#restart(this.#most(node), what, forMs, Infinity);
      case 'fail over a node':
        return this.#restart([node], what, forMs, LEAST_LAG_MS + (choice % MOST_LAG_MS));
      case 'step the clock of a node':
        return this.#step(node, what, choice % 2 === 0 ? forMs : -forMs);
      case 'cut the connections of a node':
        this.#away(node, what);
        for (const connection of this.#wayTo(node, process)?.connections ?? []) connection.cut();
        return;
      case 'part a process from a node': {
        this.#away(node, what, forMs);
        const way = this.#wayTo(node, process);
        way?.part();
        return void time.plan(forMs, () => way?.heal());
      }
      case 'part a process from all nodes':
        history.tell({ type: 'disturbed', what, until: time.now + forMs + RECONNECT_MS });
        for (const way of process?.clients ?? []) way.part();
        return void time.plan(forMs, () => {
          for (const way of process?.clients ?? []) way.heal();
        });
      case 'forget the scripts of a node':
        return node.model.forgetScripts();
      case 'fill the memory of a node':
        this.#away(node, what, forMs);
        node.model.isFull = true;
        return void time.plan(forMs, () => (node.model.isFull = false));
      case 'refuse writes at a node':
        this.#away(node, what, forMs);
        node.model.isRefusingWrites = true;
        return void time.plan(forMs, () => (node.model.isRefusingWrites = false));
      case 'refuse a command at a node': {
        const command = COMMANDS[choice % COMMANDS.length] as string;
        this.#away(node, `refuse ${command} at a node`, forMs);
        node.model.refused.add(command);
        return void time.plan(forMs, () => node.model.refused.delete(command));
      }
      case 'deafen a process at a node': {
        // Who may not subscribe at the start does not start.
        if (process?.isOpen !== true) return;
        const { name } = process.machine;
        this.#away(node, what, forMs);
        node.deafen(name);
        return void time.plan(forMs, () => node.undeafen(name));
      }
    }
  }

  /** A majority. */
  #most(first: ServerHost): readonly ServerHost[] {
    const { servers } = this.#stage;
    const from = servers.indexOf(first);
    const count = Math.floor(servers.length / 2) + 1;
    return servers
      .map((_, i) => servers[(from + i) % servers.length] as ServerHost)
      .slice(0, count);
  }

  #wayTo(node: ServerHost, process: SimulatedProcess | undefined) {
    return process?.clients.find(({ server }) => server === node);
  }

  #away(node: ServerHost, what: string, forMs = 0): void {
    const { history, time } = this.#stage;
    const until = time.now + forMs + RECONNECT_MS;
    history.tell({ type: 'node away', node: node.machine.name, what, until });
  }

  #pause(nodes: readonly ServerHost[], what: string, forMs: number): void {
    for (const node of nodes) {
      if (node.machine.isPaused) continue;
      this.#away(node, what, forMs);
      node.machine.pause();
      this.#stage.time.plan(forMs, () => node.machine.resume());
    }
  }

  /** @param lagMs how much of the last writes is lost; Infinity: all data; else: as a replica that takes over */
  #restart(nodes: readonly ServerHost[], what: string, forMs: number, lagMs: number): void {
    const { time } = this.#stage;
    const isOld = lagMs > 0 && lagMs < Infinity;
    for (const node of nodes) {
      if (!node.isUp) continue;
      this.#away(node, what, forMs + this.#youngMs);
      node.stop();
      time.plan(forMs, () => node.start(lagMs, isOld));
      if (lagMs > 0) this.#loseNumbers();
    }
  }

  #compareClocks(): void {
    const clocks = this.#stage.servers.map(({ clockMs }) => clockMs);
    this.#apartMs = Math.max(this.#apartMs, Math.max(...clocks) - Math.min(...clocks));
    if (this.#hasLostNumbers) this.#loseNumbers();
  }

  /**
   * The clock of a node that votes again has gone on for as long as it gave no vote. If that of another one was further
   * ahead, it may have given numbers that nobody knows who votes next.
   */
  #loseNumbers(): void {
    this.#hasLostNumbers = true;
    const { quorum, history } = this.#stage;
    if (this.#apartMs > quorum.rejoinAfterMs) history.tell({ type: 'numbers lost' });
  }

  /** How long a node that has started gives no vote, at the most. */
  get #youngMs(): number {
    const { rejoinAfterMs } = this.#stage.quorum;
    return rejoinAfterMs === 0 ? 0 : rejoinAfterMs * 1.05 + 100 + AGE_MS;
  }

  #step(node: ServerHost, what: string, byMs: number): void {
    const isYoung = (): boolean => node.model.uptimeSeconds * 1_000 < this.#youngMs;
    const wasYoung = isYoung();
    if (byMs > 0 && (wasYoung || this.#isNeeded(node)))
      this.#stage.history.tell({ type: 'clock set forward' });
    node.stepClock(byMs);
    this.#compareClocks();
    const youngMs = isYoung() ? this.#youngMs - node.model.uptimeSeconds * 1_000 : 0;
    this.#away(node, what, Math.max(youngMs, this.#longestLeaseMs + Math.max(0, -byMs)));
  }

  /** Whether somebody has a key, or keeps it, and has it at too few nodes without this one. */
  #isNeeded(node: ServerHost): boolean {
    const { servers } = this.#stage;
    const needed = Math.floor(servers.length / 2) + 1;
    return [...ownersAt(node)].some(([key, owner]) => {
      const others = servers.filter(
        (other) => other !== node && ownersAt(other).get(key) === owner,
      );
      return others.length < needed;
    });
  }
}

function ownersAt({ model, clockMs }: ServerHost): ReadonlyMap<string, string> {
  return new Map(
    [...model.copy()].flatMap(([key, { value, expiresAt }]): [string, string][] => {
      const isOwned = LOCK.test(key) && typeof value === 'string' && OF_SOMEBODY.test(value);
      return isOwned && expiresAt > clockMs ? [[key, value]] : [];
    }),
  );
}
