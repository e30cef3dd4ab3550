/** Stands in for Node's `process`: the queue of `nextTick`, which is emptied before the promises are served. */
import { kept } from './async-hooks.js';

const ticks: (() => void)[] = [];

export const process = {
  nextTick(run: (...args: unknown[]) => void, ...args: unknown[]): void {
    ticks.push(kept(() => run(...args)));
  },
};

/** @returns whether there were any */
export function runTicks(): boolean {
  const had = ticks.length > 0;
  while (ticks.length > 0) {
    const [run] = ticks.splice(0, 1);
    run?.();
  }
  return had;
}
