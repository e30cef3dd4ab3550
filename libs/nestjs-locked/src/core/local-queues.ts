import type { Hold } from './hold.js';
import type { Lease } from './lease.js';
import { LocalQueue } from './local-queue.js';
import type { LockContext } from './lock-context.js';
import type { AcquireCommand, AcquireReply } from './lock-store.js';
import { LockNotAcquiredError } from './lock.errors.js';
import type { ResolvedLockOptions } from './lock.options.js';

/** The queues of this process: one for each key that somebody here holds or waits for. */
export class LocalQueues {
  readonly #context: LockContext;
  readonly #queues = new Map<string, LocalQueue>();

  #isClosed = false;

  constructor(context: LockContext) {
    this.#context = context;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  get size(): number {
    return this.#queues.size;
  }

  /** Waits for one key. */
  enter(key: string, options: ResolvedLockOptions): Promise<Hold> {
    return this.#queueOf(key).enter(options);
  }

  /**
   * Takes several keys with one command if nobody has, or waits for, any of them.
   * @returns undefined if that is not so; then nothing was taken
   */
  async takeTogether(
    keys: readonly string[],
    options: ResolvedLockOptions,
  ): Promise<Hold[] | undefined> {
    if (keys.some((key) => this.#queues.has(key))) return undefined;
    const commands: AcquireCommand[] = [];
    const answers: ((reply: AcquireReply) => void)[] = [];
    const ask = (command: AcquireCommand): Promise<AcquireReply> => {
      commands.push(command);
      return new Promise((answer) => answers.push(answer));
    };
    const single = { ...options, waitMs: 0 };
    const holds = keys.map((key) => this.#queueOf(key).enter(single, ask));
    const replies = await this.#context.store.acquireTogether(commands);
    answers.forEach((answer, i) => answer(replies[i] as AcquireReply));
    return allOrNone(await Promise.allSettled(holds));
  }

  leases(): Lease[] {
    return [...this.#queues.values()].flatMap(({ lease }) => lease ?? []);
  }

  /** Messages may have been lost, or the server may be another one. */
  lookAgain(): void {
    for (const { request, lease } of this.#queues.values()) {
      request?.lookAgain();
      lease?.lookAgain();
    }
    this.#context.scheduler.catchUp();
  }

  /** Nobody is served any more; unused leases are given back. */
  close(): void {
    this.#isClosed = true;
    for (const queue of [...this.#queues.values()]) queue.close();
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
}

async function allOrNone(outcomes: PromiseSettledResult<Hold>[]): Promise<Hold[] | undefined> {
  const holds = outcomes.flatMap((outcome) =>
    outcome.status === 'fulfilled' ? outcome.value : [],
  );
  if (holds.length === outcomes.length) return holds;
  await Promise.allSettled(holds.map((hold) => hold.drop()));
  for (const outcome of outcomes) {
    if (outcome.status === 'rejected' && !(outcome.reason instanceof LockNotAcquiredError)) {
      throw outcome.reason as Error;
    }
  }
  return undefined;
}
