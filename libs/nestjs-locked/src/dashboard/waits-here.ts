import { AsyncLocalStorage } from 'node:async_hooks';
import { hostname } from 'node:os';
import { ACQUIRE, HOLD } from '../core/events/lock-channels.js';
import type { LockAcquireMessage, LockHoldMessage } from '../core/events/lock-messages.js';
import { subscribed } from '../core/events/subscribed.js';
import { systemClock } from '../core/time/clock.js';
import type { LockWait } from './lock-waits.js';

/** The calls of this process that hold keys and wait for others, as the channels tell. */
export class WaitsHere {
  readonly #service: string | undefined;
  /** The keys under which code runs. */
  readonly #held = new AsyncLocalStorage<readonly string[]>();
  readonly #waiting = new Map<object, { readonly at: number; readonly holds: readonly string[] }>();
  readonly #endings: readonly (() => void)[];

  constructor(service: string | undefined) {
    this.#service = service;
    HOLD.start.bindStore(this.#held, (message) => this.#under(message as LockHoldMessage));
    this.#endings = [
      subscribed<LockAcquireMessage>(ACQUIRE.start, (message) => this.#asked(message)),
      subscribed<LockAcquireMessage>(ACQUIRE.asyncEnd, (message) => this.#waiting.delete(message)),
      () => HOLD.start.unbindStore(this.#held),
    ];
  }

  end(): void {
    for (const end of this.#endings) end();
  }

  now(): LockWait[] {
    const now = systemClock.now();
    return [...this.#waiting].flatMap(([message, { at, holds }]) => {
      const { keys, label } = message as LockAcquireMessage;
      const call = { processId: '', host: hostname(), pid: process.pid, label };
      return keys.map((key) => ({ ...call, key, sinceMs: now - at, holds }));
    });
  }

  #under({ service, keys }: LockHoldMessage): readonly string[] {
    const outer = this.#held.getStore() ?? [];
    return service === this.#service ? [...outer, ...keys] : outer;
  }

  #asked(message: LockAcquireMessage): void {
    const holds = this.#held.getStore() ?? [];
    if (message.service !== this.#service || holds.length === 0) return;
    this.#waiting.set(message, { at: systemClock.now(), holds });
  }
}
