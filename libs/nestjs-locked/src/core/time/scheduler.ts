import { inNeutralContext } from '../runtime/neutral-context.js';
import type { CancelTimer, Clock } from './clock.js';

/** Something that is due at a moment of the monotonic clock. */
export interface Scheduled {
  /** Set and read by the scheduler only. */
  scheduled: { readonly dueAt: number; readonly index: number } | undefined;
  /** Called once when `dueAt` has come; may schedule itself again. */
  onDue(now: number): void;
}

/** What is done with every round of due items. */
export interface RoundHooks {
  /** Called at least once a second while anything is scheduled, even if nothing is due. */
  before(): void;
  /** The watchdog sends what it collected. */
  after(): void;
}

/** The longest time between two rounds: a suspend of the machine is noticed within it. */
const LONGEST_PAUSE_MS = 1_000;

interface HeapEntry {
  dueAt: number;
  index: number;
  readonly item: Scheduled;
}

/**
 * The one timer of a lock service. The deadlines, renewals, re-checks and waits of all keys are in one binary heap, so
 * that ten thousand leases need one timeout, and so that after a stall everything that is overdue is dealt with,
 * earliest first, before anything else is told "ok" (see `catchUp`).
 */
export class Scheduler {
  readonly #clock: Clock;
  readonly #round: RoundHooks;
  readonly #heap: HeapEntry[] = [];
  #cancelTimer: CancelTimer | undefined;
  #timerAt = Infinity;
  /** Nothing is scheduled, but the timer is still armed. */
  #isResting = false;
  #running = false;
  #closed = false;

  constructor(clock: Clock, round: RoundHooks) {
    this.#clock = clock;
    this.#round = round;
  }

  /** Schedules the item, or moves it; `Infinity` takes it out. */
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
    // A timer that is too early fires for nothing once; re-arming on every cancel would cost more.
    if (this.#heap.length === 0) this.#rest();
  }

  /**
   * Deals with everything that is due now. Called by the timer, and before any reply or message is acted on: after a
   * blocked event loop, a late reply must not come before an early deadline.
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

  /** Nothing is due any more, whatever is still scheduled: a closed service does not keep the process alive. */
  close(): void {
    this.#closed = true;
    this.#disarm();
  }

  /** How many items are scheduled; 0 means that no timer keeps the process from ending. */
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

  /** The next lock is likely to need a timer that is due later than this one. */
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
