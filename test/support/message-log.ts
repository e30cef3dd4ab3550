/** Collects messages, and lets a test wait for the next one. */
export class MessageLog<T> {
  readonly all: T[] = [];
  #taken = 0;
  #wake: () => void = () => {};

  add(item: T): void {
    this.all.push(item);
    this.#wake();
  }

  /**
   * Returns the first item not taken yet, and waits for it if necessary.
   * @throws Error if no item arrives within `limitMs`
   */
  async next(limitMs = 15_000): Promise<T> {
    if (this.#taken === this.all.length) await this.#arrival(limitMs);
    return this.all[this.#taken++] as T;
  }

  /** Returns all items not taken yet. */
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
