import type { EngineParts } from '../lease/engine-parts.js';
import { type LockError, LockNotAcquiredError, LockStoreError } from '../lock.errors.js';
import type { LockMode } from '../lock-mode.js';
import type { ResolvedLockOptions } from '../resolved.options.js';
import { inNeutralContext } from '../runtime/neutral-context.js';
import { modeOf } from '../store/lease-token.js';
import { awaitAnswer } from '../time/await-answer.js';
import { AcquireTogether } from './acquire-together.js';
import type { Hold } from './hold.js';
import { LocalQueue } from './local-queue.js';
import type { Occupancy } from './occupancy.js';
import { abortedError, type CallLimits, type CallTerms, notAcquired } from './waiting-call.js';

/**
 * The queues of this process: one for each key that a call here holds or waits for, and another one for each key that
 * calls here read. To the store, the two are like those of two processes.
 */
export class QueuesByKey {
  readonly #parts: EngineParts;
  readonly #queues = new Map<string, LocalQueue>();
  readonly #readers = new Map<string, LocalQueue>();
  #isClosed = false;

  constructor(parts: EngineParts) {
    this.#parts = parts;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  get size(): number {
    return this.#queues.size + this.#readers.size;
  }

  /**
   * Waits for one key.
   * @param terms `isOneOfSeveral`: the call wants other keys too, and the hold does not begin before `Hold.begin`
   */
  enter({ key, ...terms }: CallTerms): Promise<Hold> {
    return inNeutralContext(() => {
      const mode = terms.options.mode === 'shared' ? 'shared' : 'exclusive';
      // An idle lease of the other mode would block the new one. Its release is sent, and so executed, first.
      this.queueOf(key, mode === 'shared' ? 'exclusive' : 'shared')?.occupancy?.giveUp();
      return this.#queueFor(key, mode).enter(terms);
    });
  }

  /**
   * Takes several keys exclusively, all or none, with one `acquireTogether` of the store. The holds do not begin before
   * `Hold.begin`.
   * @param areAnswered the result of `awaitAnswers`
   * @throws LockNotAcquiredError naming a key that somebody holds or waits for · LockStoreError · LockAbortedError
   */
  takeTogether(
    keys: readonly string[],
    options: ResolvedLockOptions,
    limits: CallLimits,
    areAnswered: boolean,
  ): Promise<Hold[]> {
    const terms = { options: { ...options, waitMs: 0 }, isOneOfSeveral: true, limits };
    return inNeutralContext(() => {
      for (const key of keys) this.#assertFreeHere(key, limits, areAnswered);
      return this.#takeTogether(keys, terms);
    });
  }

  /**
   * Waits for the answers to commands in flight for these keys, which decide whether the keys are free.
   * @param isLastTry otherwise, waits only for commands whose calls have left, because the calls of the others come
   * before this one
   * @param until when the answers must have come, on the monotonic clock
   * @returns whether they have; newer commands in flight then do not mean that the store is silent
   * @throws LockAbortedError if the signal aborts meanwhile
   */
  async awaitAnswers(
    keys: readonly string[],
    isLastTry: boolean,
    until: number,
    signal: AbortSignal | undefined,
  ): Promise<boolean> {
    const { clock } = this.#parts;
    const queuesToAwait = (): LocalQueue[] =>
      keys.flatMap((key) => {
        const queue = this.#queues.get(key);
        return queue?.isUndecided === true && (isLastTry || queue.isEmpty) ? queue : [];
      });
    // Another command for one key may be in flight when the answer for another key has come.
    for (let asking = queuesToAwait(); asking.length > 0; asking = queuesToAwait()) {
      const answers = Promise.all(asking.map((queue) => queue.whenAnswered()));
      const areAnswered = (await awaitAnswer(answers, clock, until, signal)) !== undefined;
      if (signal?.aborted === true) throw abortedError((asking[0] as LocalQueue).key, signal);
      if (this.#isClosed || clock.now() >= until || !areAnswered) return areAnswered;
    }
    return true;
  }

  async #takeTogether(keys: readonly string[], terms: Omit<CallTerms, 'key'>): Promise<Hold[]> {
    const together = new AcquireTogether();
    const holds = keys.map((key) => {
      // An idle lease would block the new one. Its release is sent, and so executed, first.
      this.#queues.get(key)?.occupancy?.giveUp();
      this.#readers.get(key)?.occupancy?.giveUp();
      return this.#queueFor(key, 'exclusive').enter(terms, together);
    });
    // Handles every rejection from the start, because a call may be refused before the joint command is answered.
    const outcomes = Promise.allSettled(holds);
    void together.send(this.#parts.store);
    return allOrNone(await outcomes, () => together.taken);
  }

  /** A key counts as taken only if somebody has it, not if the store fails to answer. */
  #assertFreeHere(key: string, limits: CallLimits, areAnswered: boolean): void {
    const queue = this.#queues.get(key);
    const failure = queue?.failure;
    const isKnown = areAnswered || queue?.isUndecided === false;
    if (queue?.isTaken === true && isKnown && failure === undefined)
      throw notAcquired(key, limits, this.#parts.clock.now());
    const stuckBy = this.#parts.cleanUp.stuckBy(key);
    const isUnanswered = queue?.isTaken === true || queue?.isAsking === true;
    if (isUnanswered || stuckBy !== undefined) throw notAsked(key, failure ?? stuckBy);
  }

  /** The queue of a key that a call here has, or waits for, in this mode. */
  queueOf(key: string, mode: LockMode): LocalQueue | undefined {
    return (mode === 'shared' ? this.#readers : this.#queues).get(key);
  }

  /** Whether this process has the lease of a key. */
  isHeldHere(key: string): boolean {
    return this.queuesOf(key).some(({ occupancy }) => occupancy !== undefined);
  }

  /** That of the calls that want the key alone, and that of those that read. */
  queuesOf(key: string): LocalQueue[] {
    return [this.#queues.get(key), this.#readers.get(key)].filter((queue) => queue !== undefined);
  }

  /** Who has the key here under this token; undefined if nobody has. */
  occupancyUnder(key: string, token: string): Occupancy | undefined {
    const queue = this.queueOf(key, modeOf(token) ?? 'exclusive');
    return queue?.occupancies().find(({ lease }) => lease.token === token);
  }

  *#all(): Iterable<LocalQueue> {
    yield* this.#queues.values();
    yield* this.#readers.values();
  }

  occupancies(): Occupancy[] {
    return [...this.#all()].flatMap((queue) => queue.occupancies());
  }

  /**
   * Called when messages may have been lost, or the server may have changed.
   * @param node the node of the store whose keys are affected. @default all keys
   */
  lookAgain(node?: string): void {
    const { store } = this.#parts;
    for (const queue of this.#all())
      if (node === undefined || store.nodeOf?.(queue.key) === node) queue.lookAgain();
    this.#parts.scheduler.catchUp();
  }

  /** Rejects the waiting calls and releases unused leases. */
  close(): void {
    this.#isClosed = true;
    for (const queue of [...this.#all()]) queue.close();
  }

  #queueFor(key: string, mode: LockMode): LocalQueue {
    const queues = mode === 'shared' ? this.#readers : this.#queues;
    let queue = queues.get(key);
    if (queue === undefined) {
      queue = new LocalQueue(this.#parts, key, mode, this.#onEmpty);
      queues.set(key, queue);
    }
    return queue;
  }

  readonly #onEmpty = (queue: LocalQueue): void => {
    const queues = queue.mode === 'shared' ? this.#readers : this.#queues;
    if (queues.get(queue.key) === queue) queues.delete(queue.key);
  };
}

/**
 * @param taken the key that somebody holds, if known
 * @throws the most telling reason of a refusal; the other holds are then released without waiting
 */
function allOrNone(
  outcomes: PromiseSettledResult<Hold>[],
  taken: () => string | undefined,
): Hold[] {
  const refusals = outcomes.flatMap((outcome) =>
    outcome.status === 'rejected' ? (outcome.reason as LockError) : [],
  );
  const [first] = refusals;
  if (first === undefined) {
    return outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? outcome.value : []));
  }
  for (const outcome of outcomes) {
    if (outcome.status === 'fulfilled') void outcome.value.drop().catch(() => {}); // already reported
  }
  const isBroken = (error: LockError): boolean => !(error instanceof LockNotAcquiredError);
  throw refusals.find(isBroken) ?? refusals.find(({ key }) => key === taken()) ?? first;
}

function notAsked(key: string, cause: LockStoreError | undefined): LockStoreError {
  const reason = cause?.message ?? 'Redis has not answered an earlier command for this key yet';
  return new LockStoreError(`Cannot lock '${key}': ${reason}`, key, { cause });
}
