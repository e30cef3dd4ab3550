import type { SimulatedProcess } from './application/simulated-process.js';
import type { FaultOfOne, PlannedFault } from './plan.js';
import type { Stage } from './stage.js';

/** After the end of every history. */
const FOR_EVER_MS = 1_000_000;

/** How far a replica lags behind its master, at least. */
const LEAST_LAG_MS = 5;

/** How often another program tries to reach the server. */
const AGAIN_MS = 100;

/** When the last fault of a plan is over. */
const LAST_RESTART_MS = 25_000;

export function happen(fault: PlannedFault<FaultOfOne>, stage: Stage): void {
  const { server, processes, history } = stage;
  const { what, forMs, which } = fault;
  const { machine } = server;
  const { time } = machine;
  const alive = processes.filter((process) => !process.machine.isDead);
  const process = alive[which % Math.max(1, alive.length)];
  const disturbed = (): void => history.tell({ type: 'disturbed', what });
  const connections = process?.client.connections ?? [];
  const connection = connections[Math.floor(which / 7) % Math.max(1, connections.length)];
  switch (what) {
    case 'pause a process': {
      if (process === undefined || process.machine.isPaused) return;
      pause(process, stage);
      time.plan(forMs, () => resume(process, stage));
      return;
    }
    case 'kill a process':
    case 'a process vanishes':
      if (process === undefined) return;
      return kill(process, stage, what === 'kill a process');
    case 'close a process':
      if (process === undefined) return;
      process.machine.run(() => void process.close());
      return;
    case 'pause the server':
      if (machine.isPaused) return;
      disturbed();
      machine.pause();
      time.plan(forMs, () => {
        machine.resume();
        disturbed();
      });
      return;
    case 'restart the server':
      return restart(stage, what, 0, forMs);
    case 'lose all data':
      return restart(stage, what, Infinity, forMs);
    case 'fail over':
      return restart(stage, what, LEAST_LAG_MS + which, forMs);
    case 'cut a connection':
      disturbed();
      return connection?.cut();
    case 'part a process':
      disturbed();
      for (const each of connections) each.part();
      time.plan(forMs, () => {
        for (const each of connections) each.heal();
        disturbed();
      });
      return;
    case 'step the clock': {
      const byMs = which % 2 === 0 ? forMs : -forMs;
      disturbed();
      history.tell(
        byMs < 0 ? { type: 'clock set back', byMs: -byMs } : { type: 'clock set forward' },
      );
      return server.stepClock(byMs);
    }
    case 'forget scripts':
      return server.model.forgetScripts();
    case 'fill the memory':
      if (server.model.isFull) return;
      history.tell({ type: 'memory full', until: time.now + forMs });
      server.model.isFull = true;
      return void time.plan(forMs, () => (server.model.isFull = false));
    case 'refuse writes':
      if (server.model.isRefusingWrites) return;
      history.tell({ type: 'disturbed', what, until: time.now + forMs });
      history.tell({ type: 'unspecified' });
      server.model.isRefusingWrites = true;
      return void time.plan(forMs, () => (server.model.isRefusingWrites = false));
    case 'refuse PUBLISH':
    case 'refuse PUBSUB':
    case 'refuse ZADD':
    case 'refuse SET':
    case 'refuse ZREM':
      return refuse(stage, what, forMs);
    case 'deafen a process': {
      // Who may not subscribe at the start does not start.
      if (process?.isOpen !== true) return;
      const { name } = process.machine;
      // Some for good.
      const until = which % 2 === 0 ? Infinity : time.now + forMs;
      history.tell({ type: 'disturbed', what, until: Math.min(until, FOR_EVER_MS) });
      server.deafen(name);
      if (until < Infinity) time.plan(forMs, () => server.undeafen(name));
      return;
    }
    case 'another program writes':
      return anotherProgram(stage, which, forMs);
  }
}

/** A right is taken away, for a time. */
function refuse({ server: { model }, history }: Stage, what: string, forMs: number): void {
  const command = what.slice('refuse '.length);
  if (model.refused.has(command)) return;
  const { time } = history;
  // Without PUBSUB, all goes on as before, but for those that wait behind the dead. Places that nobody could leave get
  // their turns much later.
  const until = command === 'ZREM' ? FOR_EVER_MS : time.now + forMs;
  if (command !== 'PUBSUB') history.tell({ type: 'disturbed', what, until });
  history.tell({ type: 'unspecified' });
  model.refused.add(command);
  time.plan(forMs, () => model.refused.delete(command));
}

/** Another program has a key of the name of one of ours, if it is free, and removes it later. */
function anotherProgram({ server, history }: Stage, which: number, forMs: number): void {
  const { model } = server;
  const name = ['a', 'b', 'c'][which % 3] as string;
  const part = ['', ':queue', ':lapsed'][Math.floor(which / 3) % 3] as string;
  const key = `lock:{${name}}${part}`;
  const isText = part === ':queue' || which % 2 === 0;
  if (model.command('EXISTS', [key]) !== 0) return;
  const write = isText ? ['SET', key, 'theirs'] : ['ZADD', key, '1', 'theirs'];
  const { time } = history;
  const what = `another program writes ${key}`;
  history.tell({ type: 'disturbed', what, until: time.now + forMs });
  history.tell({ type: 'unspecified', key: name });
  model.command(write[0] as string, write.slice(1));
  const remove = (): void => {
    // A server that comes back without its last writes may have it again.
    if (time.now < LAST_RESTART_MS) time.plan(AGAIN_MS, remove);
    if (!server.isUp || model.isRefusingWrites) return;
    const isTheirs = isText
      ? model.command('GET', [key]) === 'theirs'
      : model.command('ZSCORE', [key, 'theirs']) === '1';
    if (!isTheirs) return;
    history.tell({ type: 'disturbed', what });
    model.command('DEL', [key]);
  };
  time.plan(forMs, remove);
}

/** @param isNoticed whether its connections are closed, or its machine is gone */
export function kill(
  { machine, clients }: SimulatedProcess,
  { history }: Stage,
  isNoticed: boolean,
): void {
  machine.kill();
  for (const client of clients) client.killed(isNoticed);
  history.tell({ type: 'died', process: machine.name });
}

export function pause({ machine }: SimulatedProcess, { history }: Stage): void {
  machine.pause();
  history.tell({ type: 'paused', process: machine.name });
}

export function resume({ machine }: SimulatedProcess, { history }: Stage): void {
  history.tell({ type: 'continued', process: machine.name });
  machine.resume();
}

/** @param lagMs how much of the last writes is lost; Infinity: all data @param forMs how long the server is away */
export function restart(
  { server, history }: Stage,
  what: string,
  lagMs: number,
  forMs: number,
): void {
  if (!server.isUp) return;
  history.tell({ type: 'disturbed', what });
  server.stop();
  server.machine.time.plan(forMs, () => {
    if (lagMs > 0) history.tell({ type: 'lost data' });
    server.start(lagMs);
    history.tell({ type: 'disturbed', what });
  });
}
