import { LockStoreError } from '../../core/lock.errors.js';
import type { LockServersListener } from '../connection/lock-servers.js';

/**
 * Which nodes do not answer. One of them is an outage only while it has slots: then there are keys that cannot be
 * reached. When its slots have gone to another node, it is nobody's concern. Silence and slots change apart from each
 * other, so what the listener was told is kept beside them, and compared with them after every change.
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

  /** Slots may have changed hands. */
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
