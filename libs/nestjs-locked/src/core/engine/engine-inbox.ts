import type { HolderQuestions } from '../deadlocks/holder-questions.js';
import type { EngineParts } from '../lease/engine-parts.js';
import { LockStoreError } from '../lock.errors.js';
import type { QueuesByKey } from '../queue/queues-by-key.js';
import { inNeutralContext } from '../runtime/neutral-context.js';
import type { InboxMessage, StoreListener, StoreMessage } from '../store/lock-store.js';
import { nodeAway, Outage } from '../store/outage.js';

/** Distributes the events of the store: a message to the owner of its token, an alarm to every queue. */
export class EngineInbox implements StoreListener {
  readonly #parts: EngineParts;
  readonly #queues: QueuesByKey;
  readonly #questions: HolderQuestions;
  /** By their names, those that cannot be used although the store can. */
  readonly #nodes = new Map<string, Outage>();

  constructor(parts: EngineParts, queues: QueuesByKey, questions: HolderQuestions) {
    this.#parts = parts;
    this.#queues = queues;
    this.#questions = questions;
  }

  message(message: StoreMessage): void {
    inNeutralContext(() => {
      if (message.kind === 'question') this.#questions.question(message);
      else if (message.kind === 'answer') this.#questions.answer(message);
      else this.#receive(message);
    });
  }

  /** Called when no message will come any more. */
  close(): void {
    this.#questions.close();
    for (const outage of this.#nodes.values()) outage.close();
  }

  #receive(message: InboxMessage): void {
    const { scheduler, tokens, store } = this.#parts;
    scheduler.catchUp();
    const { kind, key, token } = message;
    const owner = tokens.ownerOf(token);
    if (owner !== undefined) {
      owner.onMessage(message);
    } else if ((kind === 'grant' || kind === 'wanted') && tokens.isOwn(token)) {
      // The token is ours, but no request or lease uses it, because a clean-up was lost. Others must not wait until it
      // expires.
      void store.release({ key, token, used: 0 });
    }
  }

  reconnected(node?: string): void {
    inNeutralContext(() => {
      this.#parts.cleanUp.lookAgain();
      this.#queues.lookAgain(node);
    });
  }

  inboxLost(node?: string, cause = new LockStoreError('the subscription is lost')): void {
    inNeutralContext(() => {
      this.#parts.silences.begins(cause, node);
      this.#queues.lookAgain(node);
    });
  }

  inboxFails(cause: LockStoreError, node?: string): void {
    inNeutralContext(() => {
      this.#parts.silences.begins(cause, node);
      this.#parts.silences.reportNow(node);
    });
  }

  inboxBack(node?: string): void {
    inNeutralContext(() => this.#parts.silences.ends(node));
  }

  rightsLost(cause: LockStoreError, node?: string): void {
    inNeutralContext(() => {
      this.#parts.refusals.begins(cause, node);
      this.#parts.refusals.reportNow(node);
    });
  }

  rightsBack(node?: string): void {
    inNeutralContext(() => {
      this.#parts.refusals.ends(node);
      this.#parts.cleanUp.lookAgain();
    });
  }

  storeAwaited(cause: LockStoreError): void {
    inNeutralContext(() => this.#parts.awaited.begins(cause));
  }

  storeLost(cause: LockStoreError, node?: string): void {
    inNeutralContext(() => this.#parts.outages.begins(cause, node));
  }

  storeBack(node?: string): void {
    inNeutralContext(() => {
      this.#parts.outages.ends(node);
      this.#parts.cleanUp.lookAgain();
    });
  }

  nodeLost(cause: LockStoreError, node: string): void {
    inNeutralContext(() => {
      const { clock, report } = this.#parts;
      const outage = this.#nodes.get(node) ?? new Outage(clock, Infinity, report, nodeAway(node));
      this.#nodes.set(node, outage);
      outage.begins(cause);
    });
  }

  nodeBack(node: string): void {
    inNeutralContext(() => {
      this.#nodes.get(node)?.ends();
      this.#nodes.delete(node);
    });
  }

  /** The nodes of a quorum that cannot be used now. */
  get nodesAway(): readonly string[] {
    return [...this.#nodes.keys()];
  }

  connectionReplaced(cause: LockStoreError): void {
    this.#parts.report({ type: 'connection-replaced', cause });
  }

  backupLost(cause: LockStoreError): void {
    inNeutralContext(() => this.#parts.backupAway.begins(cause));
  }

  backupBack(): void {
    inNeutralContext(() => this.#parts.backupAway.ends());
  }

  mayEvict(policy: string): void {
    this.#parts.report({ type: 'eviction', policy });
  }
}
