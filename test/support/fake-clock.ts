import type { Clock } from '../../libs/nestjs-locked/src/core/time/clock.js';

/** Time that passes only when the test says so. */
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

  /** Lets time pass; timers fire in their order, each followed by what it set in motion. */
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

  /** Time passes, but no timer fires: a blocked event loop. */
  block(ms: number): void {
    this.#pass(ms);
  }

  /** The wall clock is set to another time. */
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

/** Everything that is ready to run has run, in this turn of the event loop and in the next two. */
export async function settled(): Promise<void> {
  for (let i = 0; i < 20; i++) await Promise.resolve();
  for (let turn = 0; turn < 2; turn++) {
    await new Promise((resolve) => setImmediate(resolve));
    for (let i = 0; i < 20; i++) await Promise.resolve();
  }
}
