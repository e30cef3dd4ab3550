/** Everything that the demo has started, and how to stop it: once, in reverse order, however the demo ends. */
export class Cleanup {
  readonly #stops: (() => Promise<void>)[] = [];
  #running: Promise<void> | undefined;

  get hasBegun(): boolean {
    return this.#running !== undefined;
  }

  /**
   * Starts something that will be stopped, even if the demo is interrupted while it starts.
   *
   * @throws Error if the demo is being stopped
   */
  async use<T>(start: () => Promise<T>, stop: (started: T) => Promise<void>): Promise<T> {
    this.#assertNotBegun();
    const starting = start();
    this.#stops.unshift(async () => {
      const result = await starting.then(
        (started) => ({ started }),
        () => undefined, // the caller of use() gets this error; there is nothing to stop
      );
      if (result !== undefined) await stop(result.started);
    });
    const started = await starting;
    this.#assertNotBegun();
    return started;
  }

  run(): Promise<void> {
    return (this.#running ??= this.#stopAll());
  }

  #assertNotBegun(): void {
    if (this.hasBegun) throw new Error('Nothing is started any more: the demo is being stopped');
  }

  async #stopAll(): Promise<void> {
    for (const stop of this.#stops) {
      try {
        await stop();
      } catch (error) {
        console.error('While stopping:', error instanceof Error ? error.message : error);
      }
    }
  }
}
