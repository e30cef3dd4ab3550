import type { Clock } from '../../libs/nestjs-locked/src/core/time/clock.js';

/** A clock that advances only on request. */
export class FakeClock implements Clock {
  #now = 1_000;
  #wall = 1_800_000_000_000;
  #timers = new Set<{ at: number; fire: () => void }>();

  now(): number {
    return this.#now;
  }

  wallNow(): number {
    return this.#wall;
  }

  after(delayMs: number, fire: () => void): () => void {
    if (delayMs === Infinity) return () => {};
    const timer = { at: this.#now + delayMs, fire };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  /** Advances the clock. Due timers fire in order; the work that one starts settles before the next one fires. */
  async advance(ms: number): Promise<void> {
    const end = this.#now + ms;
    await settled();
    for (;;) {
      const next = [...this.#timers].sort((a, b) => a.at - b.at)[0];
      if (next === undefined || next.at > end) break;
      this.#timers.delete(next);
      this.#pass(Math.max(0, next.at - this.#now));
      next.fire();
      await settled();
    }
    this.#pass(end - this.#now);
    await settled();
  }

  /** Advances the clock without firing timers, as a blocked event loop does. */
  block(ms: number): void {
    this.#pass(ms);
  }

  /** Steps the wall clock; the monotonic clock is unaffected. */
  stepWall(ms: number): void {
    this.#wall += ms;
  }

  get timers(): number {
    return this.#timers.size;
  }

  #pass(ms: number): void {
    this.#now += ms;
    this.#wall += ms;
  }
}

/** Resolves when all pending microtasks have run, in this turn of the event loop and in the next two. */
export async function settled(): Promise<void> {
  for (let i = 0; i < 20; i++) await Promise.resolve();
  for (let turn = 0; turn < 2; turn++) {
    await new Promise((resolve) => setImmediate(resolve));
    for (let i = 0; i < 20; i++) await Promise.resolve();
  }
}
