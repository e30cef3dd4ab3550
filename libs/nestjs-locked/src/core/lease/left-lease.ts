import type { InboxMessage } from '../store/lock-store.js';
import type { TokenOwner, TokenRegistry } from '../store/token-registry.js';
import type { Scheduled, Scheduler } from '../time/scheduler.js';

/**
 * What a process keeps of a lease that it has left to whoever has its token, for as long as the lease may be in the
 * store: messages about a token that nothing here uses would make it release the key.
 */
export class LeftLease implements Scheduled, TokenOwner {
  scheduled: Scheduled['scheduled'];
  readonly #tokens: TokenRegistry;
  readonly #token: string;

  /** @param until when the lease has certainly ended, on the monotonic clock, unless it is adopted */
  constructor(tokens: TokenRegistry, scheduler: Scheduler, token: string, until: number) {
    this.#tokens = tokens;
    this.#token = token;
    tokens.assign(token, this);
    scheduler.schedule(this, until);
  }

  onDue(): void {
    this.#tokens.forget(this.#token);
  }

  /** Others may want the key: whoever adopts it learns that from the store. */
  onMessage(_message: InboxMessage): void {}
}
