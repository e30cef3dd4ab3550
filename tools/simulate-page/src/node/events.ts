/** Stands in for `node:events`: listeners are called at once, in the order in which they were added. */
type Listener = (...args: never[]) => void;

export class EventEmitter {
  readonly #listeners = new Map<string, readonly Listener[]>();

  on(event: string, listener: Listener): this {
    this.#listeners.set(event, [...this.listeners(event), listener]);
    return this;
  }

  addListener(event: string, listener: Listener): this {
    return this.on(event, listener);
  }

  once(event: string, listener: Listener): this {
    const once = (...args: never[]): void => {
      this.off(event, once);
      listener(...args);
    };
    return this.on(event, Object.assign(once, { listener }));
  }

  off(event: string, listener: Listener): this {
    const before = this.listeners(event);
    const last = before.findLastIndex(
      (other) => other === listener || (other as { listener?: Listener }).listener === listener,
    );
    this.#listeners.set(event, before.toSpliced(last, last < 0 ? 0 : 1));
    return this;
  }

  removeListener(event: string, listener: Listener): this {
    return this.off(event, listener);
  }

  removeAllListeners(event?: string): this {
    if (event === undefined) this.#listeners.clear();
    else this.#listeners.delete(event);
    return this;
  }

  setMaxListeners(): this {
    return this;
  }

  listeners(event: string): readonly Listener[] {
    return this.#listeners.get(event) ?? [];
  }

  listenerCount(event: string): number {
    return this.listeners(event).length;
  }

  emit(event: string, ...args: unknown[]): boolean {
    const listeners = this.listeners(event);
    if (listeners.length === 0 && event === 'error') throw args[0];
    for (const listener of listeners) Reflect.apply(listener, this, args);
    return listeners.length > 0;
  }
}
