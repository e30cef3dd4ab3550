import { EVERY_MS } from '../tick.js';

/** Who worked on the report of one tick. Each name is that of a replica, as often as it did so. */
export interface TickRecord {
  readonly begun: string[];
  readonly done: string[];
}

/** Counts, from what the replicas print, how often each tick was run. */
export class Tally {
  readonly #ticks = new Map<string, TickRecord>();

  hear(replica: string, line: string): void {
    const [, tick, what] = /report (\S+Z) (begins|is done)$/.exec(line) ?? [];
    if (tick === undefined) return;
    const record = this.of(tick);
    record[what === 'begins' ? 'begun' : 'done'].push(replica);
    this.#ticks.set(tick, record);
  }

  of(tick: string): TickRecord {
    return this.#ticks.get(tick) ?? { begun: [], done: [] };
  }

  /** All ticks from the first that was run to the last, with those in between that nobody ran. */
  get ticks(): string[] {
    const run = [...this.#ticks.keys()].sort();
    const [first, last] = [run[0], run.at(-1)];
    if (first === undefined || last === undefined) return [];
    const ticks: string[] = [];
    for (let at = Date.parse(first); at <= Date.parse(last); at += EVERY_MS) {
      ticks.push(new Date(at).toISOString().replace('.000', ''));
    }
    return ticks;
  }
}
