import type { SimulatedProcess } from './application/simulated-process.js';
import type { PlannedFault } from './plan.js';
import type { Stage } from './stage.js';

/** How far a replica lags behind its master, at least. */
const LEAST_LAG_MS = 5;

export function happen(fault: PlannedFault, stage: Stage): void {
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
      history.tell({ type: byMs < 0 ? 'clock set back' : 'clock set forward' });
      return server.stepClock(byMs);
    }
    case 'forget scripts':
      return server.model.forgetScripts();
  }
}

/** @param isNoticed whether its connections are closed, or its machine is gone */
export function kill(
  { machine, client }: SimulatedProcess,
  { history }: Stage,
  isNoticed: boolean,
): void {
  machine.kill();
  client.killed(isNoticed);
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
