import type { KeyTerms } from '../lock-mode.js';
import type { Clock } from '../time/clock.js';
import { isTokenOf, leaseToken } from './lease-token.js';
import type { InboxMessage } from './lock-store.js';

/** A request or lease, which receives the messages for its token. */
export interface TokenOwner {
  onMessage(message: InboxMessage): void;
}

/**
 * Introduces tokens and knows which of them are in use. A token belongs to one tenure and is never reused; a message
 * about an unknown token concerns nothing that this process waits for.
 */
export class TokenRegistry {
  readonly #processId: string;
  /**
   * Each owner in a cell that is emptied, because deleted entries of a Map are not collected soon (see `LinkedList`).
   */
  readonly #owners = new Map<string, { owner: TokenOwner | undefined }>();
  readonly #clock: Clock;
  /** The number of the latest token. */
  #latest = 0;

  constructor(processId: string, clock: Clock) {
    this.#processId = processId;
    this.#clock = clock;
  }

  /** @param looksItself whether no message about it can arrive now @param label of the call that requests the lease */
  introduce(owner: TokenOwner, looksItself = false, label?: string, terms?: KeyTerms): string {
    // Microseconds, because a process may introduce more than a token in a millisecond.
    this.#latest = Math.max(this.#latest + 1, Math.floor(this.#clock.wallNow() * 1_000));
    const token = leaseToken(this.#processId, this.#latest, looksItself, label, terms);
    this.#owners.set(token, { owner });
    return token;
  }

  /** Assigns the token a new owner: it passes from a request to the resulting lease. */
  assign(token: string, owner: TokenOwner): void {
    const cell = this.#owners.get(token);
    if (cell === undefined) this.#owners.set(token, { owner });
    else cell.owner = owner;
  }

  ownerOf(token: string): TokenOwner | undefined {
    return this.#owners.get(token)?.owner;
  }

  /** Whether this process has, or may have, introduced the token; a message can name any. */
  isOwn(token: string): boolean {
    return isTokenOf(this.#processId, token);
  }

  forget(token: string): void {
    const cell = this.#owners.get(token);
    if (cell === undefined) return;
    cell.owner = undefined;
    this.#owners.delete(token);
  }

  /** The number of tokens in use. */
  get size(): number {
    return this.#owners.size;
  }
}
