/** The turns of the real event loop, kept before `virtual-node` replaces the function. */
const { setImmediate: realTurn } = globalThis;

/** A real turn takes longer than most events, so many share one; Node's signals and output are served in between. */
const EVENTS_PER_TURN = 1_000;

/**
 * Runs what Node runs after each callback: `process.nextTick`, the reactions of promises, and reports of rejections
 * that nobody handles. Node has no documented function for it. It does nothing inside a reaction, so it is called in
 * turns only.
 */
const { _tickCallback: drainPromises } = process as unknown as {
  _tickCallback(this: void): void;
};

/** Calls it in a turn of its own, not in the reaction of a promise. What it throws ends the process. */
function inTurn<T>(run: () => T): Promise<T> {
  return new Promise((resolve) => realTurn(() => resolve(run())));
}

interface Event {
  readonly at: number;
  readonly order: number;
  run: (() => void) | undefined;
}

/**
 * The only time in a simulated world. It stands still while anything runs, and then jumps to the next event. Events of
 * one moment run in the order in which they were planned.
 */
export class VirtualTime {
  /** In milliseconds; whole microseconds. */
  now = 0;
  #count = 0;
  /** A binary heap. */
  readonly #events: Event[] = [];
  /** What was put off to the next turn of the event loop. */
  #turns: (() => void)[] = [];

  /** @returns a function that cancels it */
  plan(delayMs: number, run: () => void): () => void {
    return this.planAt(this.now + Math.max(0, delayMs), run);
  }

  /** The same at a moment, or at the next whole microsecond: never early. */
  planAt(due: number, run: () => void): () => void {
    const rounded = Math.round(due * 1000) / 1000;
    const at = rounded < due ? Math.round(due * 1000 + 1) / 1000 : rounded;
    const event: Event = { at, order: this.#count++, run };
    this.#add(event);
    return () => (event.run = undefined);
  }

  /** Node's `setImmediate`. */
  nextTurn(run: () => void): void {
    this.#turns.push(run);
  }

  /** Runs all events until this moment, each to its end. */
  async runUntil(end: number): Promise<void> {
    while (await inTurn(() => this.#runSome(end)));
    this.now = Math.max(this.now, end);
  }

  /** @returns whether there are more */
  #runSome(end: number): boolean {
    this.#settle();
    for (let i = 0; i < EVENTS_PER_TURN; i += 1) {
      if (!this.runNext(end)) return false;
      this.#settle();
    }
    return true;
  }

  /** When the next event happens; Infinity: never. */
  protected get nextAt(): number {
    while (this.#events[0] !== undefined && this.#events[0].run === undefined) this.#removeFirst();
    return this.#events[0]?.at ?? Infinity;
  }

  /** Runs the next event, unless it is after `end`. @returns whether there was one */
  protected runNext(end: number): boolean {
    const at = this.nextAt;
    const [event] = this.#events;
    if (event?.run === undefined || at > end) return false;
    this.#removeFirst();
    this.now = at;
    event.run();
    return true;
  }

  /** Runs what was put off to this turn. @returns whether there was anything */
  protected runTurns(): boolean {
    const turns = this.#turns;
    this.#turns = [];
    for (const run of turns) run();
    return turns.length > 0;
  }

  /** Lets all promises and turns of the present moment run. */
  #settle(): void {
    do drainPromises();
    while (this.runTurns());
  }

  #add(event: Event): void {
    const events = this.#events;
    let i = events.push(event) - 1;
    while (i > 0) {
      const parent = (i - 1) >> 1;
      if (isBefore(events[parent] as Event, event)) break;
      events[i] = events[parent] as Event;
      i = parent;
    }
    events[i] = event;
  }

  #removeFirst(): void {
    const events = this.#events;
    const last = events.pop() as Event;
    if (events.length === 0) return;
    let i = 0;
    for (;;) {
      let child = 2 * i + 1;
      if (child >= events.length) break;
      const right = events[child + 1];
      if (right !== undefined && isBefore(right, events[child] as Event)) child += 1;
      if (isBefore(last, events[child] as Event)) break;
      events[i] = events[child] as Event;
      i = child;
    }
    events[i] = last;
  }
}

function isBefore(a: Event, b: Event): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order);
}
