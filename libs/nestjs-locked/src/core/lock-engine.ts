import { CleanUp } from './clean-up.js';
import { systemClock, type Clock } from './clock.js';
import type { Hold } from './hold.js';
import { LocalQueue } from './local-queue.js';
import type { LockContext } from './lock-context.js';
import type { ReportLockEvent } from './lock-events.js';
import { assertLockKey } from './lock-key.js';
import type { LockRunner } from './lock-runner.js';
import type { InboxMessage, LockStore, StoreListener } from './lock-store.js';
import type { Lock } from './lock.js';
import { LockAbortedError } from './lock.errors.js';
import {
  resolveLockOptions,
  type LockOptions,
  type ResolvedServiceOptions,
  type WithLockOptions,
} from './lock.options.js';
import { Scheduler } from './scheduler.js';
import { TokenRegistry } from './token-registry.js';
import { Watchdog } from './watchdog.js';

export interface LockEngineOptions {
  readonly store: LockStore;
  readonly options: ResolvedServiceOptions;
  readonly report: ReportLockEvent;
  /** @default systemClock */
  readonly clock?: Clock;
  /** @default Math.random */
  readonly random?: () => number;
}

/** Everything that one lock service does, without Nest: a local queue per key, and one scheduler for all of them. */
export class LockEngine implements LockRunner, StoreListener {
  readonly #context: LockContext;
  readonly #queues = new Map<string, LocalQueue>();
  /** Handed out and not yet released. */
  readonly #holds = new Set<Hold>();
  #draining = false;
  #whenIdle: (() => void) | undefined;
  #closed: Promise<void> | undefined;

  constructor({
    store,
    options,
    report,
    clock = systemClock,
    random = Math.random,
  }: LockEngineOptions) {
    const watchdog = new Watchdog(store, clock);
    this.#context = {
      options,
      store,
      clock,
      watchdog,
      report,
      scheduler: new Scheduler(clock, () => watchdog.flush()),
      cleanUp: new CleanUp(store, clock),
      tokens: new TokenRegistry(store.processId),
      jitter: (ms) => random() * ms,
    };
  }

  /** @throws LockStoreError · LockConfigError */
  async open(): Promise<void> {
    await this.#context.store.open(this);
  }

  /** Waits for the lock. @throws LockNotAcquiredError and the rest of the family */
  async acquire(key: string, options?: LockOptions): Promise<Hold> {
    assertLockKey(key);
    const resolved = resolveLockOptions(options, this.#context.options);
    if (resolved.signal?.aborted === true) {
      const cause: unknown = resolved.signal.reason;
      throw new LockAbortedError(
        `Lock '${key}' was not asked for: the signal is already aborted`,
        key,
        { cause },
      );
    }
    if (this.#draining) {
      throw new LockAbortedError(
        `Lock '${key}' was not asked for: the application is shutting down`,
        key,
      );
    }
    const hold = await this.#queueOf(key).enter(resolved);
    this.#holds.add(hold);
    hold.onReleased(() => this.#forget(hold));
    return hold;
  }

  async withLock<T>(
    key: string,
    options: WithLockOptions,
    work: (lock: Lock) => T | Promise<T>,
  ): Promise<T> {
    const hold = await this.acquire(key, options);
    // The work's own result and error win over whatever becomes of the release: `settle` never throws.
    try {
      return await work(hold);
    } finally {
      await hold.settle();
    }
  }

  /** No new locks; waiters are sent away. Holds stay, and are renewed. */
  drain(): void {
    this.#draining = true;
    for (const queue of [...this.#queues.values()]) queue.close();
  }

  /**
   * Waits for the holders, at most `graceMs`; then their signals abort and their leases are left to run out, because
   * their work may still be going on.
   */
  close(graceMs: number): Promise<void> {
    this.#closed ??= this.#close(graceMs);
    return this.#closed;
  }

  async #close(graceMs: number): Promise<void> {
    this.drain();
    if (this.#holds.size > 0) await this.#idle(graceMs);
    for (const queue of [...this.#queues.values()]) queue.lease?.abandonHold();
    await this.#context.cleanUp.close();
    await this.#context.store.close();
  }

  #idle(limitMs: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#context.clock.after(limitMs, resolve);
      this.#whenIdle = () => {
        cancel();
        resolve();
      };
    });
  }

  message(message: InboxMessage): void {
    this.#context.scheduler.catchUp();
    const lease = this.#context.tokens.leaseOf(message.token);
    if (lease !== undefined) {
      lease.onMessage(message);
    } else if (message.kind !== 'head') {
      // A token of ours that nobody here waits or works with: a clean-up was lost. Others must not wait for its end.
      void this.#context.store.release({ name: message.name, token: message.token, used: 0 });
    }
  }

  reconnected(): void {
    this.#lookAgain();
  }

  inboxLost(): void {
    this.#lookAgain();
  }

  /** For tests: nothing may be left when nobody holds or waits. */
  get residue(): { queues: number; tokens: number; timers: number } {
    const { tokens, scheduler } = this.#context;
    return { queues: this.#queues.size, tokens: tokens.size, timers: scheduler.size };
  }

  #lookAgain(): void {
    for (const queue of this.#queues.values()) queue.lease?.lookAgain();
    this.#context.scheduler.catchUp();
  }

  #queueOf(key: string): LocalQueue {
    let queue = this.#queues.get(key);
    if (queue === undefined) {
      queue = new LocalQueue(this.#context, key, this.#onEmpty);
      this.#queues.set(key, queue);
    }
    return queue;
  }

  readonly #onEmpty = (queue: LocalQueue): void => {
    if (this.#queues.get(queue.key) === queue) this.#queues.delete(queue.key);
  };

  #forget(hold: Hold): void {
    this.#holds.delete(hold);
    if (this.#holds.size === 0) this.#whenIdle?.();
  }
}
