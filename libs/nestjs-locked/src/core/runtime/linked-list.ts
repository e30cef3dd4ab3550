/** The fields of an item. Only the list writes them; an item is in one list at a time. */
export interface Linked<T> {
  list: object | undefined;
  before: T | undefined;
  after: T | undefined;
}

/**
 * Items in order of arrival, any of which may leave. A Set for items that come and go with every lock: V8 frees deleted
 * entries of a Set or Map only with the next major garbage collection, because every outgrown table keeps its entries
 * and a link to the next table.
 */
export class LinkedList<T extends Linked<T>> implements Iterable<T> {
  #first: T | undefined;
  #last: T | undefined;
  #size = 0;

  get first(): T | undefined {
    return this.#first;
  }

  get size(): number {
    return this.#size;
  }

  has(item: T): boolean {
    return item.list === this;
  }

  /** @param item must not be in any list */
  add(item: T): void {
    item.list = this;
    item.before = this.#last;
    if (this.#last === undefined) this.#first = item;
    else this.#last.after = item;
    this.#last = item;
    this.#size++;
  }

  /** Does nothing if the item is not in this list. */
  delete(item: T): void {
    if (!this.has(item)) return;
    const { before, after } = item;
    if (before === undefined) this.#first = after;
    else before.after = after;
    if (after === undefined) this.#last = before;
    else after.before = before;
    item.list = item.before = item.after = undefined;
    this.#size--;
  }

  /** Copy the list first if items may leave during the iteration. */
  *[Symbol.iterator](): Iterator<T> {
    for (let item = this.#first; item !== undefined; item = item.after) yield item;
  }
}
