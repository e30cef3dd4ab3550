/** Collects what arrives, and lets a test wait for it. */
export class MessageLog<T> {
  readonly all: T[] = [];
  #taken = 0;
  #wake: () => void = () => {};

  add(item: T): void {
    this.all.push(item);
    this.#wake();
  }

  /**
   * The first item that was not taken yet; waits for it.
   * @throws Error when there is none after `limitMs`
   */
  async next(limitMs = 15_000): Promise<T> {
    if (this.#taken === this.all.length) await this.#arrival(limitMs);
    return this.all[this.#taken++] as T;
  }

  /** What has arrived and was not taken yet. */
  takeAll(): T[] {
    const items = this.all.slice(this.#taken);
    this.#taken = this.all.length;
    return items;
  }

  #arrival(limitMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const late = () => reject(new Error(`nothing arrived within ${limitMs} ms`));
      const timer = setTimeout(late, limitMs);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
