import { inNeutralContext } from '../runtime/neutral-context.js';
import type { CancelTimer, Clock } from './clock.js';

/** An item that is due at a moment of the monotonic clock. */
export interface Scheduled {
  /** Set and read by the scheduler only. */
  scheduled: { readonly dueAt: number; readonly index: number } | undefined;
  /** Called once when `dueAt` has come; may schedule itself again. */
  onDue(now: number): void;
}

/** Hooks around every round of due items. */
export interface RoundHooks {
  /** Called at least once a second while anything is scheduled, even if nothing is due. */
  before(): void;
  /** Called after the round: the watchdog sends the renewals collected. */
  after(): void;
}

/** The longest time between two rounds, within which a suspend of the machine is detected. */
const LONGEST_PAUSE_MS = 1_000;

interface HeapEntry {
  dueAt: number;
  index: number;
  readonly item: Scheduled;
}

/**
 * The one timer of a lock service. The deadlines, renewals, re-checks and waits of all keys are in one binary heap, so
 * that ten thousand leases need one timeout, and so that after a stall overdue items are handled first, in order of
 * time, before any other event is acted on (see `catchUp`).
 */
export class Scheduler {
  readonly #clock: Clock;
  readonly #round: RoundHooks;
  readonly #heap: HeapEntry[] = [];
  #cancelTimer: CancelTimer | undefined;
  #timerAt = Infinity;
  /** Set while nothing is scheduled but the timer is still armed. */
  #isResting = false;
  #running = false;
  #closed = false;

  constructor(clock: Clock, round: RoundHooks) {
    this.#clock = clock;
    this.#round = round;
  }

  /** Schedules or reschedules the item; `Infinity` removes it. */
  schedule(item: Scheduled, dueAt: number): void {
    if (dueAt === Infinity) {
      this.cancel(item);
      return;
    }
    let entry = item.scheduled as HeapEntry | undefined;
    if (entry === undefined) {
      entry = { dueAt, index: this.#heap.length, item };
      item.scheduled = entry;
      this.#heap.push(entry);
    } else {
      entry.dueAt = dueAt;
    }
    this.#up(entry);
    this.#down(entry);
    this.#arm();
  }

  cancel(item: Scheduled): void {
    const entry = item.scheduled as HeapEntry | undefined;
    if (entry === undefined) return;
    item.scheduled = undefined;
    const last = this.#heap.pop() as HeapEntry;
    if (last !== entry) {
      last.index = entry.index;
      this.#heap[last.index] = last;
      this.#up(last);
      this.#down(last);
    }
    // A timer that is too early fires once in vain, which is cheaper than re-arming it on every cancel.
    if (this.#heap.length === 0) this.#rest();
  }

  /**
   * Handles all items that are due now. Called by the timer, and before any reply or message is acted on: after a
   * blocked event loop, a late reply must not overtake an earlier deadline.
   */
  catchUp(): void {
    if (this.#running) return;
    const now = this.#clock.now();
    const first = this.#heap[0];
    if (first === undefined || first.dueAt > now) return;
    inNeutralContext(() => this.#treat(now));
  }

  #treat(now: number): void {
    this.#running = true;
    try {
      this.#round.before();
      for (
        let next = this.#heap[0];
        next !== undefined && next.dueAt <= now;
        next = this.#heap[0]
      ) {
        this.cancel(next.item);
        next.item.onDue(now);
      }
    } finally {
      this.#running = false;
      this.#arm();
    }
    this.#round.after();
  }

  /** Drops whatever is still scheduled, so that a closed service does not keep the process alive. */
  close(): void {
    this.#closed = true;
    this.#disarm();
  }

  /** The number of scheduled items; at 0, no timer keeps the process alive. */
  get size(): number {
    return this.#heap.length;
  }

  #arm(): void {
    const first = this.#heap[0];
    if (first === undefined || this.#running || this.#closed) return;
    if (this.#timerAt <= first.dueAt) return this.#wake();
    this.#disarm();
    const now = this.#clock.now();
    this.#timerAt = Math.min(first.dueAt, now + LONGEST_PAUSE_MS);
    this.#cancelTimer = this.#clock.after(Math.max(0, this.#timerAt - now), () => {
      this.#cancelTimer = undefined;
      this.#disarm();
      this.#round.before();
      this.catchUp();
      this.#arm();
    });
  }

  #disarm(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#timerAt = Infinity;
    this.#isResting = false;
  }

  /** Leaves the timer armed without keeping the process alive: the next lock is likely to need a later timer. */
  #rest(): void {
    const mayEnd = this.#cancelTimer?.mayEnd;
    if (mayEnd === undefined) return this.#disarm();
    this.#isResting = true;
    mayEnd(true);
  }

  #wake(): void {
    if (!this.#isResting) return;
    this.#isResting = false;
    this.#cancelTimer?.mayEnd?.(false);
  }

  #up(entry: HeapEntry): void {
    while (entry.index > 0) {
      const parent = this.#heap[(entry.index - 1) >> 1] as HeapEntry;
      if (parent.dueAt <= entry.dueAt) return;
      this.#swap(parent, entry);
    }
  }

  #down(entry: HeapEntry): void {
    for (;;) {
      const left = this.#heap[2 * entry.index + 1];
      const right = this.#heap[2 * entry.index + 2];
      if (left === undefined) return;
      const smaller = right !== undefined && right.dueAt < left.dueAt ? right : left;
      if (smaller.dueAt >= entry.dueAt) return;
      this.#swap(entry, smaller);
    }
  }

  #swap(above: HeapEntry, below: HeapEntry): void {
    const index = above.index;
    above.index = below.index;
    below.index = index;
    this.#heap[above.index] = above;
    this.#heap[below.index] = below;
  }
}
