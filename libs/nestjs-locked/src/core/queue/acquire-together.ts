import type { Acquires } from '../lease/request-user.js';
import type { AcquireCommand, AcquireReply, LockStore } from '../store/lock-store.js';

/** Collects the first commands of several queues and sends them as one, which takes all keys or none. */
export class AcquireTogether implements Acquires {
  readonly #commands: AcquireCommand[] = [];
  readonly #answers: ((reply: AcquireReply) => void)[] = [];
  #taken: string | undefined;

  /** Resolves when the joint command was answered. */
  acquire(command: AcquireCommand): Promise<AcquireReply> {
    this.#commands.push(command);
    return new Promise((answer) => this.#answers.push(answer));
  }

  /** The key that somebody else holds, once known. */
  get taken(): string | undefined {
    return this.#taken;
  }

  async send(store: LockStore): Promise<void> {
    if (this.#commands.length === 0) return;
    const replies = await store.acquireTogether(this.#commands);
    const taken = replies.findIndex((reply) => reply.kind === 'busy' && reply.wasFree !== true);
    this.#taken = this.#commands[taken]?.key;
    this.#answers.forEach((answer, i) => answer(replies[i] as AcquireReply));
  }
}
