import { LockStoreError } from '../../core/lock.errors.js';
import type { LockServersListener } from '../connection/lock-servers.js';

/**
 * Tracks nodes that do not answer. A silent node is an outage only while it has slots, whose keys then cannot be
 * reached. Silence and slots change independently, so the reported outages are kept separately, and compared with both
 * after every change.
 */
export class ClusterOutages {
  readonly #listener: Pick<LockServersListener, 'lost' | 'back'>;
  readonly #hasSlots: (address: string) => boolean;
  readonly #away = new Map<string, LockStoreError>();
  readonly #reported = new Set<string>();

  constructor(
    listener: Pick<LockServersListener, 'lost' | 'back'>,
    hasSlots: (address: string) => boolean,
  ) {
    this.#listener = listener;
    this.#hasSlots = hasSlots;
  }

  begins(address: string, cause: LockStoreError): void {
    const message = `master ${address} of the cluster: ${cause.message}`;
    const away = new LockStoreError(message, undefined, { cause });
    const isOther = this.#away.get(address)?.message !== message;
    this.#away.set(address, away);
    if (isOther && this.#reported.has(address)) this.#listener.lost(away, address);
    this.review();
  }

  ends(address: string): void {
    this.#away.delete(address);
    this.review();
  }

  /** Called when slots may have moved. */
  review(): void {
    for (const [address, cause] of this.#away) {
      if (this.#reported.has(address) || !this.#hasSlots(address)) continue;
      this.#reported.add(address);
      this.#listener.lost(cause, address);
    }
    for (const address of [...this.#reported]) {
      if (this.#away.has(address) && this.#hasSlots(address)) continue;
      this.#reported.delete(address);
      this.#listener.back(address);
    }
  }
}
