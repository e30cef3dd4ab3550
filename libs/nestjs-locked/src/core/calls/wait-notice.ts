import { EVENTS } from '../events/lock-channels.js';
import {
  HOLDER_FOUND,
  type LockAcquireMessage,
  type LockEventMessage,
  type WithHolderFound,
} from '../events/lock-messages.js';
import type { QueuedFor } from '../lock-events.js';
import type { WaitListener } from '../queue/waiting-call.js';
import type { ResolvedLockOptions } from '../resolved.options.js';
import { templateOf } from '../template-of.js';
import type { HolderTraces } from './holder-traces.js';

interface Needed {
  /** The name of the service, if there are several. */
  readonly service: string | undefined;
  readonly traces: HolderTraces;
}

/**
 * Tells subscribers that a call has to wait for a key. If one of them wants it, also finds the trace of the hold in
 * another process for which it waits.
 */
export class WaitNotice implements WaitListener {
  readonly #needed: Needed;
  readonly #key: string;
  readonly #options: ResolvedLockOptions;
  #cancel: (() => void) | undefined;

  private constructor(needed: Needed, key: string, options: ResolvedLockOptions) {
    this.#needed = needed;
    this.#key = key;
    this.#options = options;
  }

  /** @returns undefined if nobody is subscribed */
  static of(needed: Needed, key: string, options: ResolvedLockOptions): WaitNotice | undefined {
    return EVENTS.hasSubscribers ? new WaitNotice(needed, key, options) : undefined;
  }

  queued(by: QueuedFor): void {
    const { service, traces } = this.#needed;
    const { label, template, message } = this.#options;
    const request = message as (LockAcquireMessage & WithHolderFound) | undefined;
    const found = request?.[HOLDER_FOUND];
    if (by === 'store' && found !== undefined) this.#cancel = traces.find(this.#key, found);
    const of = { key: this.#key, label, template: templateOf(this.#key, template) };
    const event = { type: 'queued', ...of, for: by } as const;
    EVENTS.publish({ service, event, request } satisfies LockEventMessage);
  }

  /** Called when the wait is over. */
  readonly ended = (): void => this.#cancel?.();
}
