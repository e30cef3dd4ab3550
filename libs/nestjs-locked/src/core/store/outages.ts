import type { LockStoreError } from '../lock.errors.js';
import type { ReportLockEvent } from '../lock-events.js';
import type { Clock } from '../time/clock.js';
import type { LockStore } from './lock-store.js';
import { Outage, type OutageKind, STORE_AWAY } from './outage.js';

/** The name of the only node of most stores. */
const ONLY_NODE = '';

/** Which nodes of the store are away, as far as is known. A call fails fast only if its own key is concerned. */
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

  /** Reports it now, unless that was done. */
  tell(node = ONLY_NODE): void {
    this.#byNode.get(node)?.tell();
  }

  /**
   * Reports now the outages that concern this key, unless that was done.
   * @returns whether there is one
   */
  tellOf(key: string): boolean {
    const outages = this.#allOf(key);
    for (const outage of outages) outage.tell();
    return outages.length > 0;
  }

  /** Whether an outage was reported that concerns this key. */
  isToldOf(key: string): boolean {
    return this.#allOf(key).some(({ isTold }) => isTold);
  }

  ends(node = ONLY_NODE): void {
    this.#byNode.get(node)?.ends();
    this.#byNode.delete(node);
  }

  /** @throws LockStoreError if there is one that was reported */
  assertNoneTold(): void {
    for (const outage of this.#byNode.values()) if (outage.isTold) outage.assertGone();
  }

  /** Whether one of these keys cannot be reached. */
  concern(keys: readonly string[]): boolean {
    return this.#byNode.size > 0 && keys.some((key) => this.#of(key) !== undefined);
  }

  /** Waits for this, which never rejects, but only as long as all of these keys can be reached. */
  async whileReachable(keys: readonly string[], done: Promise<void>): Promise<void> {
    if (this.concern(keys)) return;
    let look = (): void => {};
    const away = new Promise<void>((resolve) => {
      look = () => {
        if (this.concern(keys)) resolve();
      };
    });
    this.#onBegin.add(look);
    await Promise.race([done, away]);
    this.#onBegin.delete(look);
  }

  /** Why this key cannot be reached, if that is so. */
  causeOf(key: string): LockStoreError | undefined {
    return this.#byNode.size === 0 ? undefined : this.#of(key)?.cause;
  }

  /**
   * The error for a call that would have to wait for the store: undefined if the store is there, or has been away for
   * so short a time that it may be back in a moment.
   */
  refusal(key: string): LockStoreError | undefined {
    return this.#byNode.size === 0 ? undefined : this.#of(key)?.refusal(key);
  }

  /** Why this key cannot be reached, if that has lasted so long that calls are refused. */
  causeOfLong(key: string): LockStoreError | undefined {
    return this.#of(key)?.isLong === true ? this.causeOf(key) : undefined;
  }

  /**
   * @param key undefined for a question about all keys
   * @throws LockStoreError if what is asked about has been away for so long that calls are refused
   */
  assertMayAsk(key?: string): void {
    const concerned = key === undefined ? [...this.#byNode.values()] : [this.#of(key)];
    for (const outage of concerned) if (outage?.isLong === true) outage.assertGone();
  }

  /** @throws LockStoreError if a node of the store is away, however short the time is */
  assertNone(): void {
    for (const outage of this.#byNode.values()) outage.assertGone();
  }

  /** What is not reported yet is not reported any more. */
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
