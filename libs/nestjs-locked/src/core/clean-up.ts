import type { Clock } from './clock.js';
import type { LockStore, ReleaseCommand, ReleaseReply } from './lock-store.js';

const FIRST_RETRY_MS = 100;
const SLOWEST_RETRY_MS = 1_000;

/**
 * Takes back what a command may have left in the store when nobody waits for its result any more. Owner-checked
 * and harmless to repeat, so it is repeated until it is answered, or until the lease in question must have ended.
 */
export class CleanUp {
  readonly #store: LockStore;
  readonly #clock: Clock;
  readonly #running = new Set<Promise<void>>();
  #closed = false;

  constructor(store: LockStore, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
  }

  /** Removes the tokens from the queue; hands the lease on if one of them has got it meanwhile. */
  leave(name: string, tokens: readonly [string, string?], until: number, done: () => void): void {
    const attempt = async (): Promise<boolean> =>
      (await this.#store.leave({ name, tokens, take: false, leaseMs: 0 })).kind !== 'unknown';
    this.#run(attempt, until, done);
  }

  /** Releases; the first answer is given back, and if it is `unknown` the repeating goes on behind it. */
  async release(command: ReleaseCommand, until: number, done: () => void): Promise<ReleaseReply> {
    const first = await this.#store.release(command);
    if (first.kind !== 'unknown') {
      done();
      return first;
    }
    this.#run(
      async () => (await this.#store.release(command)).kind !== 'unknown',
      until,
      done,
      FIRST_RETRY_MS,
    );
    return first;
  }

  /** Stops repeating, and waits for what is on its way. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all(this.#running);
  }

  #run(attempt: () => Promise<boolean>, until: number, done: () => void, delayMs = 0): void {
    const run = this.#repeat(attempt, until, delayMs).finally(() => {
      this.#running.delete(run);
      done();
    });
    this.#running.add(run);
  }

  async #repeat(attempt: () => Promise<boolean>, until: number, delayMs: number): Promise<void> {
    if (delayMs > 0) await this.#sleep(delayMs);
    if (delayMs > 0 && this.#closed) return;
    for (
      let pause = FIRST_RETRY_MS;
      !(await attempt());
      pause = Math.min(pause * 2, SLOWEST_RETRY_MS)
    ) {
      if (this.#closed || this.#clock.now() >= until) return;
      await this.#sleep(pause);
    }
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#clock.after(ms, resolve));
  }
}
