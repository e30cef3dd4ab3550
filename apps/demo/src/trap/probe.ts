import { setTimeout as sleep } from 'node:timers/promises';

const EVERY_MS = 20;

/** Asks again and again, and remembers the longest wait for an answer. An error is an answer as well. */
export class Probe {
  #longestMs = 0;
  #isStopping = false;
  readonly #running: Promise<void>;

  constructor(private readonly ask: () => Promise<void>) {
    this.#running = this.#run();
  }

  /** @returns the longest wait, in milliseconds */
  async stop(): Promise<number> {
    this.#isStopping = true;
    await this.#running;
    return this.#longestMs;
  }

  async #run(): Promise<void> {
    while (!this.#isStopping) {
      const startedAt = performance.now();
      await this.ask().catch(() => undefined);
      this.#longestMs = Math.max(this.#longestMs, performance.now() - startedAt);
      await sleep(EVERY_MS);
    }
  }
}
