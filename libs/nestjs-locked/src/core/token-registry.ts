import type { Lease } from './lease.js';

/**
 * Introduces tokens and knows which of them are in use. A token belongs to one tenure and is never used again;
 * a message about one that is not known here concerns something that nobody in this process waits for.
 */
export class TokenRegistry {
  readonly #processId: string;
  readonly #leases = new Map<string, Lease>();
  #count = 0;

  constructor(processId: string) {
    this.#processId = processId;
  }

  introduce(lease: Lease): string {
    const token = `${this.#processId}:${++this.#count}`;
    this.#leases.set(token, lease);
    return token;
  }

  leaseOf(token: string): Lease | undefined {
    return this.#leases.get(token);
  }

  forget(token: string): void {
    this.#leases.delete(token);
  }

  /** How many tokens are in use. */
  get size(): number {
    return this.#leases.size;
  }
}
