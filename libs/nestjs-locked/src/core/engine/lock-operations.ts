import { assertKeyPattern, assertLockKey } from '../keys/lock-key.js';
import type { EngineParts } from '../lease/engine-parts.js';
import type { LockInfo } from '../lock-info.js';
import { lockInfo, type LockInspector } from '../store/lock-inspector.js';
import type { EngineInbox } from './engine-inbox.js';
import type { EngineLifetime } from './engine-lifetime.js';

/** What operators want of a lock service: to know whether its store answers and who holds what, and to end a hold. */
export class LockOperations {
  readonly #parts: EngineParts;
  readonly #lifetime: EngineLifetime;
  readonly #inbox: EngineInbox;

  constructor(parts: EngineParts, lifetime: EngineLifetime, inbox: EngineInbox) {
    this.#parts = parts;
    this.#lifetime = lifetime;
    this.#inbox = inbox;
  }

  /**
   * How long the store takes to answer, in milliseconds. If it is known to be away, it is not asked. That messages do
   * not arrive is a failure as well, once it was reported.
   * @throws LockStoreError
   */
  ping(): Promise<number> {
    const { outages, silences, refusals, clock } = this.#parts;
    return this.#ask(async () => {
      outages.assertNone();
      await this.#opened();
      const askedAt = clock.now();
      await this.#inspector.ping();
      refusals.assertNoneTold(); // first: without rights, messages may not arrive either
      silences.assertNoneTold();
      return clock.now() - askedAt;
    });
  }

  /** @returns null if nobody holds it @throws LockStoreError */
  async inspect(key: string): Promise<LockInfo | null> {
    assertLockKey(key);
    const record = await this.#ask(async () => {
      this.#parts.outages.assertMayAsk(key);
      await this.#opened();
      return this.#inspector.inspect(key);
    });
    return record === undefined ? null : lockInfo(record);
  }

  /** The locks that are held, in no order. @throws LockKeyError if the pattern is no text · LockStoreError */
  async *list(pattern: string): AsyncIterable<LockInfo> {
    try {
      assertKeyPattern(pattern);
      this.#parts.outages.assertMayAsk();
      await this.#opened();
      for await (const key of this.#inspector.list(pattern)) {
        const info = await this.inspect(key);
        if (info !== null) yield info;
      }
    } finally {
      await this.#parts.loopTurn.pause();
    }
  }

  /**
   * The store takes the key from its holder by `revokeScript`, and tells the holder's `Lease`, which aborts its signal.
   * @returns whether somebody held it @throws LockStoreError
   */
  async forceRelease(key: string): Promise<boolean> {
    assertLockKey(key);
    const token = await this.#ask(async () => {
      this.#parts.outages.assertMayAsk(key);
      await this.#opened();
      return this.#inspector.revoke(key);
    });
    if (token === undefined) return false;
    // A holder of this process must know when the caller does. The message of the store may come later.
    this.#inbox.message({ kind: 'revoked', key, token });
    return true;
  }

  async #ask<T>(question: () => Promise<T>): Promise<T> {
    try {
      return await question();
    } finally {
      await this.#parts.loopTurn.pause();
    }
  }

  async #opened(): Promise<void> {
    if (!this.#lifetime.isOpen) await this.#lifetime.open();
  }

  get #inspector(): LockInspector {
    return this.#parts.store.inspector;
  }
}
