import type { LockStore } from '../store/lock-store.js';
import type { LeaseGrant } from './lease-grant.js';

/** The label of a holder for `inspect`, stored beside its lease. Only people read it, so nothing waits for it. */
export class LeaseLabel {
  readonly #store: LockStore;
  readonly #key: string;
  readonly #token: string;
  readonly #leaseLastsMs: () => number;
  /** The label last written under this lease. */
  #written: string | undefined;

  /** @param leaseLastsMs how long the lease, and so its label, may last in the store */
  constructor(store: LockStore, key: string, { token }: LeaseGrant, leaseLastsMs: () => number) {
    this.#store = store;
    this.#key = key;
    this.#token = token;
    this.#leaseLastsMs = leaseLastsMs;
  }

  /** Writes the label once for each lease and renewal, and again only if the next call has another label or none. */
  show(label: string | undefined): void {
    if (label === this.#written) return;
    if (label === undefined) this.remove();
    this.#written = label;
    this.renew();
  }

  /** Called when the lease was renewed. */
  renew(): void {
    if (this.#written === undefined) return;
    const { inspector } = this.#store;
    const written = inspector.label(this.#key, this.#token, this.#written, this.#leaseLastsMs());
    void written.catch(() => {}); // only people would miss it
  }

  /** Called before a release is sent, because the next holder may have its own label. */
  remove(): void {
    if (this.#written === undefined) return;
    void this.#store.inspector.unlabel(this.#key).catch(() => {}); // it also expires
  }
}
