import { processIdOf } from '../core/store/lease-token.js';
import type { InboxMessage, StoreMessage } from '../core/store/lock-store.js';
import { type Clock, systemClock } from '../core/time/clock.js';

export interface Waiter {
  readonly token: string;
  readonly position: number;
}

/** A lease, or what keeps a key taken without one. */
export interface Holder {
  readonly token: string;
  expiresAt: number;
  /** Of a permit. */
  readonly slot?: number;
}

/** The state of one key, as in Redis. */
export interface Entry {
  /** Those who have the key: none, one, or several that may have it together. */
  holders: readonly Holder[];
  /** Sorted by position. */
  queue: Waiter[];
  /** Until then, no waiter gets its old position in the queue back. */
  lapsedUntil: number;
}

/**
 * State shared by several in-memory stores, as processes share a Redis server. It excludes nobody outside this process.
 */
export class InMemoryLocks {
  /** Decides when leases end. */
  readonly clock: Clock;
  /** The highest fencing number that is used or reserved, for all keys. */
  fence = 0;
  readonly #entries = new Map<string, Entry>();
  readonly #inboxes = new Map<string, (message: StoreMessage) => void>();

  constructor(clock: Clock = systemClock) {
    this.clock = clock;
  }

  /** The state of a key; expired leases are removed. */
  entry(key: string): Entry {
    let entry = this.#entries.get(key);
    if (entry === undefined) {
      entry = { holders: [], queue: [], lapsedUntil: -Infinity };
      this.#entries.set(key, entry);
    }
    const now = this.clock.now();
    if (entry.holders.some(({ expiresAt }) => expiresAt <= now))
      entry.holders = entry.holders.filter(({ expiresAt }) => expiresAt > now);
    return entry;
  }

  /** Every key that was ever requested. */
  keys(): string[] {
    return [...this.#entries.keys()];
  }

  /** Opens the inbox of a process. */
  subscribe(processId: string, inbox: (message: StoreMessage) => void): void {
    this.#inboxes.set(processId, inbox);
  }

  /** Closes the inbox of a process. */
  unsubscribe(processId: string): void {
    this.#inboxes.delete(processId);
  }

  /** Whether the process of this token has an inbox. */
  listens(token: string): boolean {
    return this.#inboxes.has(processIdOf(token) ?? '');
  }

  /** Puts a message into the inbox of the process whose token it names. */
  tell(message: InboxMessage): void {
    this.send(processIdOf(message.token), message);
  }

  /** Puts a message into the inbox of a process. */
  send(processId: string | undefined, message: StoreMessage): void {
    void Promise.resolve().then(() => this.#inboxes.get(processId ?? '')?.(message));
  }

  /** Delivers at once; only for code outside the commands of a store. */
  tellNow(message: InboxMessage): void {
    this.#inboxes.get(processIdOf(message.token) ?? '')?.(message);
  }
}
