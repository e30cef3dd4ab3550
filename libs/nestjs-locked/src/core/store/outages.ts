import type { LockStoreError } from '../lock.errors.js';
import type { ReportLockEvent } from '../lock-events.js';
import type { Clock } from '../time/clock.js';
import type { LockStore } from './lock-store.js';
import { Outage, type OutageKind, STORE_AWAY } from './outage.js';

/** The name of the node in a store with only one. */
const ONLY_NODE = '';

/** The nodes of the store known to be away. A call fails fast only if its own key is affected. */
export class Outages {
  readonly #store: LockStore;
  readonly #makeOutage: () => Outage;
  readonly #byNode = new Map<string, Outage>();
  /** Called when an outage begins. */
  readonly #onBegin = new Set<() => void>();

  constructor(
    store: LockStore,
    clock: Clock,
    failFastAfterMs: number,
    report: ReportLockEvent,
    kind: OutageKind = STORE_AWAY,
  ) {
    this.#store = store;
    this.#makeOutage = () => new Outage(clock, failFastAfterMs, report, kind);
  }

  begins(cause: LockStoreError, node = ONLY_NODE): void {
    const outage = this.#byNode.get(node) ?? this.#makeOutage();
    this.#byNode.set(node, outage);
    outage.begins(cause);
    for (const look of this.#onBegin) look();
  }

  /** Reports the outage of this node now, unless already done. */
  reportNow(node = ONLY_NODE): void {
    this.#byNode.get(node)?.reportNow();
  }

  /**
   * Reports the outages that affect this key now, unless already done.
   * @returns whether there is one
   */
  reportNowOf(key: string): boolean {
    const outages = this.#allOf(key);
    for (const outage of outages) outage.reportNow();
    return outages.length > 0;
  }

  /** Whether an outage that affects this key was reported. */
  isReportedOf(key: string): boolean {
    return this.#allOf(key).some(({ isReported }) => isReported);
  }

  ends(node = ONLY_NODE): void {
    this.#byNode.get(node)?.ends();
    this.#byNode.delete(node);
  }

  /** @throws LockStoreError if an outage was reported */
  assertNoneReported(): void {
    for (const outage of this.#byNode.values()) if (outage.isReported) outage.throwError();
  }

  /** Whether one of these keys cannot be reached. */
  concern(keys: readonly string[]): boolean {
    return this.#byNode.size > 0 && keys.some((key) => this.#of(key) !== undefined);
  }

  /** Waits for a promise that never rejects, but only while all these keys can be reached. */
  whileReachable(keys: readonly string[], done: Promise<void>): Promise<void> {
    return new Promise((resolve) => {
      if (this.concern(keys)) return resolve();
      const stop = (): void => {
        this.#onBegin.delete(look);
        resolve();
      };
      const look = (): void => {
        if (this.concern(keys)) stop();
      };
      this.#onBegin.add(look);
      void done.then(stop);
    });
  }

  /** Why this key cannot be reached, if so. */
  causeOf(key: string): LockStoreError | undefined {
    return this.#byNode.size === 0 ? undefined : this.#of(key)?.cause;
  }

  /**
   * The error for a call that would have to wait for the store; undefined if the store is there, or has been away so
   * briefly that it may be back in a moment.
   */
  failFastError(key: string): LockStoreError | undefined {
    return this.#byNode.size === 0 ? undefined : this.#of(key)?.failFastError(key);
  }

  /** Why this key cannot be reached, if it has been away long enough for calls to be refused. */
  failFastCause(key: string): LockStoreError | undefined {
    return this.#of(key)?.failsFast === true ? this.causeOf(key) : undefined;
  }

  /**
   * @param key undefined for all keys
   * @throws LockStoreError if the key, or any key, has been away long enough for calls to be refused
   */
  assertMayAsk(key?: string): void {
    const concerned = key === undefined ? [...this.#byNode.values()] : [this.#of(key)];
    for (const outage of concerned) if (outage?.failsFast === true) outage.throwError();
  }

  /** @throws LockStoreError if a node of the store is away, however briefly */
  assertNone(): void {
    for (const outage of this.#byNode.values()) outage.throwError();
  }

  /** Cancels pending reports. */
  close(): void {
    for (const outage of this.#byNode.values()) outage.close();
  }

  #of(key: string): Outage | undefined {
    return this.#byNode.get(this.#nodeOf(key));
  }

  #allOf(key: string): readonly Outage[] {
    if (this.#byNode.size === 0) return [];
    const names = this.#store.outagesOf?.(key) ?? [this.#nodeOf(key)];
    return names.flatMap((name) => this.#byNode.get(name) ?? []);
  }

  #nodeOf(key: string): string {
    return this.#store.nodeOf?.(key) ?? ONLY_NODE;
  }
}
