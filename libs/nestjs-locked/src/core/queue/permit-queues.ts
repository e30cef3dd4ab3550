import type { EngineParts } from '../lease/engine-parts.js';
import type { Hold } from './hold.js';
import { LocalQueue } from './local-queue.js';
import { type CallTerms, tooManyWaiters } from './waiting-call.js';

/**
 * The calls of this process that want a permit of the same key. As long as none of them is known to wait, each that
 * comes asks for a permit at once, in a queue of its own. Once one has to wait, those that come after it line up behind
 * it in one queue, which requests one permit after another: so they have one place in the store's queue, however many
 * they are.
 */
export class PermitQueues implements Iterable<LocalQueue> {
  readonly key: string;
  readonly #parts: EngineParts;
  readonly #onEmpty: (queues: PermitQueues) => void;
  /** Each with one call, or with the permit of a call. */
  readonly #lanes = new Set<LocalQueue>();
  /** Of the others. */
  #line: LocalQueue | undefined;

  /** @param onEmpty called when there is no call, no request and no permit */
  constructor(parts: EngineParts, key: string, onEmpty: (queues: PermitQueues) => void) {
    this.#parts = parts;
    this.key = key;
    this.#onEmpty = onEmpty;
  }

  *[Symbol.iterator](): Iterator<LocalQueue> {
    yield* this.#lanes;
    if (this.#line !== undefined) yield this.#line;
  }

  enter(terms: Omit<CallTerms, 'key'>): Promise<Hold> {
    const { maxWaiters, permits, waitMs } = terms.options;
    let waiting = 0;
    let mayAsk = this.#lanes.size < (permits as number) && this.#line?.isTaken !== true;
    for (const queue of this) {
      waiting += queue.waiting;
      if (queue.isQueued) mayAsk = false;
    }
    if (waitMs > 0 && waiting >= maxWaiters)
      return Promise.reject(tooManyWaiters(this.key, waiting, maxWaiters));
    return (mayAsk ? this.#newLane() : (this.#line ??= this.#newQueue())).enter(terms);
  }

  #newLane(): LocalQueue {
    const lane = this.#newQueue();
    this.#lanes.add(lane);
    return lane;
  }

  #newQueue(): LocalQueue {
    return new LocalQueue(this.#parts, this.key, 'permit', this.#queueEmpty);
  }

  readonly #queueEmpty = (queue: LocalQueue): void => {
    if (queue === this.#line) this.#line = undefined;
    else this.#lanes.delete(queue);
    if (this.#lanes.size === 0 && this.#line === undefined) this.#onEmpty(this);
  };
}
