/** Members by their score, in the order of Redis: by score, then by bytes. */
export type SortedSet = Map<string, number>;

export interface Entry {
  readonly value: string | SortedSet;
  /** In milliseconds of the server's clock. */
  readonly expiresAt: number;
}

/** The keys of one server. A key whose time is over is not there, as for a client of Redis. */
export class Keyspace {
  readonly #entries: Map<string, Entry>;
  readonly #now: () => number;

  /** @param now the server's clock, in milliseconds since 1970 */
  constructor(now: () => number, entries: ReadonlyMap<string, Entry> = new Map()) {
    this.#now = now;
    this.#entries = new Map(entries);
  }

  get(key: string): Entry | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined || entry.expiresAt > this.#now()) return entry;
    this.#entries.delete(key);
    return undefined;
  }

  /** Sorted sets are replaced, never changed, so that a copy of the keyspace may share them. */
  set(key: string, value: string | SortedSet, expiresAt = Infinity): void {
    this.#entries.set(key, { value, expiresAt });
  }

  delete(key: string): boolean {
    const isThere = this.get(key) !== undefined;
    this.#entries.delete(key);
    return isThere;
  }

  keys(): string[] {
    return [...this.#entries.keys()].filter((key) => this.get(key) !== undefined);
  }

  copy(): ReadonlyMap<string, Entry> {
    return new Map(this.#entries);
  }
}

export function sorted(set: SortedSet): (readonly [member: string, score: number])[] {
  return [...set].sort(
    ([a, scoreOfA], [b, scoreOfB]) =>
      scoreOfA - scoreOfB || Buffer.compare(Buffer.from(a), Buffer.from(b)),
  );
}
