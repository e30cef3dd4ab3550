import type { Plan } from './plan.js';
import type { Stage } from './stage.js';

/** How long what has been disturbed may take to be as before: the longest waits, leases and limits are over. */
const RECOVERY_MS = 30_000;
/** The time for the last calls, after that. */
const LAST_CALLS_MS = 25_000;
const CLOSING_MS = 10_000;

/** What is done at a moment, after everything else of that moment. */
export interface LastAct {
  readonly atMs: number;
  readonly act: (stage: Stage) => void;
}

/** How a history ends: each process that is left must get each key, and then closes. */
export function lastActs(plan: Plan): readonly LastAct[] {
  const calmAtMs = plan.calmAtMs + RECOVERY_MS;
  const closeAtMs = calmAtMs + LAST_CALLS_MS;
  return [
    {
      atMs: calmAtMs,
      act: (stage) => {
        stage.history.tell({ type: 'calm' });
        askForEveryKey(plan, stage);
      },
    },
    {
      atMs: closeAtMs,
      act: ({ processes }) => {
        for (const process of processes) process.machine.run(() => void process.close());
      },
    },
    { atMs: closeAtMs + CLOSING_MS, act: () => {} },
  ];
}

function askForEveryKey({ processes: planned }: Plan, { processes }: Stage): void {
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
