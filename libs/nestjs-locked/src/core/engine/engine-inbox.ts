import type { EngineParts } from '../lease/engine-parts.js';
import { LockStoreError } from '../lock.errors.js';
import type { QueuesByKey } from '../queue/queues-by-key.js';
import { inNeutralContext } from '../runtime/neutral-context.js';
import type { InboxMessage, StoreListener } from '../store/lock-store.js';

/** What the store tells without being asked: a message goes to the owner of its token, an alarm to every queue. */
export class EngineInbox implements StoreListener {
  readonly #parts: EngineParts;
  readonly #queues: QueuesByKey;

  constructor(parts: EngineParts, queues: QueuesByKey) {
    this.#parts = parts;
    this.#queues = queues;
  }

  message(message: InboxMessage): void {
    inNeutralContext(() => this.#receive(message));
  }

  #receive(message: InboxMessage): void {
    const { scheduler, tokens, store } = this.#parts;
    scheduler.catchUp();
    const { kind, key, token } = message;
    const owner = tokens.ownerOf(token);
    if (owner !== undefined) {
      owner.onMessage(message);
    } else if ((kind === 'grant' || kind === 'wanted') && tokens.isOwn(token)) {
      // The token is ours, but no request or lease uses it: a clean-up was lost. Others must not wait for its end.
      void store.release({ key, token, used: 0 });
    }
  }

  reconnected(part?: string): void {
    inNeutralContext(() => {
      this.#parts.cleanUp.lookAgain();
      this.#queues.lookAgain(part);
    });
  }

  inboxLost(part?: string, cause = new LockStoreError('the subscription is lost')): void {
    inNeutralContext(() => {
      this.#parts.silences.begins(cause, part);
      this.#queues.lookAgain(part);
    });
  }

  inboxFails(cause: LockStoreError, part?: string): void {
    inNeutralContext(() => {
      this.#parts.silences.begins(cause, part);
      this.#parts.silences.tell(part);
    });
  }

  inboxBack(part?: string): void {
    inNeutralContext(() => this.#parts.silences.ends(part));
  }

  rightsLost(cause: LockStoreError, part?: string): void {
    inNeutralContext(() => {
      this.#parts.refusals.begins(cause, part);
      this.#parts.refusals.tell(part);
    });
  }

  rightsBack(part?: string): void {
    inNeutralContext(() => {
      this.#parts.refusals.ends(part);
      this.#parts.cleanUp.lookAgain();
    });
  }

  storeLost(cause: LockStoreError, part?: string): void {
    inNeutralContext(() => this.#parts.outages.begins(cause, part));
  }

  storeBack(part?: string): void {
    inNeutralContext(() => {
      this.#parts.outages.ends(part);
      this.#parts.cleanUp.lookAgain();
    });
  }

  connectionReplaced(cause: LockStoreError): void {
    this.#parts.report({ type: 'connection-replaced', cause });
  }

  mayEvict(policy: string): void {
    this.#parts.report({ type: 'eviction', policy });
  }
}
