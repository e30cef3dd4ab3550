import { isTokenOf, leaseToken } from './lease-token.js';
import type { InboxMessage } from './lock-store.js';

/** What is told of the messages for a token: a request or a lease. */
export interface TokenOwner {
  onMessage(message: InboxMessage): void;
}

/**
 * Introduces tokens and knows which of them are in use. A token belongs to one tenure and is never used again;
 * a message about one that is not known here concerns something that nobody in this process waits for.
 */
export class TokenRegistry {
  readonly #processId: string;
  /** Each owner in a cell that is emptied: what was deleted from a Map is not collected soon (see `LinkedList`). */
  readonly #owners = new Map<string, { owner: TokenOwner | undefined }>();
  #count = 0;

  constructor(processId: string) {
    this.#processId = processId;
  }

  /** @param looksItself no message about it can arrive now */
  introduce(owner: TokenOwner, looksItself = false): string {
    const token = leaseToken(this.#processId, ++this.#count, looksItself);
    this.#owners.set(token, { owner });
    return token;
  }

  /** The token has another owner from now on: it passes from a request to the lease that came of it. */
  assign(token: string, owner: TokenOwner): void {
    const cell = this.#owners.get(token);
    if (cell === undefined) this.#owners.set(token, { owner });
    else cell.owner = owner;
  }

  ownerOf(token: string): TokenOwner | undefined {
    return this.#owners.get(token)?.owner;
  }

  /** Whether this process has introduced it, or may have: a message can name any token. */
  isOwn(token: string): boolean {
    return isTokenOf(this.#processId, token);
  }

  forget(token: string): void {
    const cell = this.#owners.get(token);
    if (cell === undefined) return;
    cell.owner = undefined;
    this.#owners.delete(token);
  }

  /** How many tokens are in use. */
  get size(): number {
    return this.#owners.size;
  }
}
