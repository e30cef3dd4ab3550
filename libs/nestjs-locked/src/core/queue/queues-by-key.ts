import type { EngineParts } from '../lease/engine-parts.js';
import type { Acquires } from '../lease/request-user.js';
import { type LockError, LockNotAcquiredError, LockStoreError } from '../lock.errors.js';
import type { HeldMode, LockMode } from '../lock-mode.js';
import type { ResolvedLockOptions } from '../resolved.options.js';
import { inNeutralContext } from '../runtime/neutral-context.js';
import { awaitAnswer } from '../time/await-answer.js';
import { AcquireTogether } from './acquire-together.js';
import type { Hold } from './hold.js';
import { LocalQueue } from './local-queue.js';
import type { Occupancy } from './occupancy.js';
import { PermitQueues } from './permit-queues.js';
import { abortedError, type CallLimits, type CallTerms, notAcquired } from './waiting-call.js';

/**
 * The queues of this process: one for each key that a call here holds or waits for, another one for each key that calls
 * here read, and one more for permits. To the store, they are like those of several processes.
 */
export class QueuesByKey {
  readonly #parts: EngineParts;
  readonly #queues = new Map<string, LocalQueue>();
  readonly #readers = new Map<string, LocalQueue>();
  readonly #permits = new Map<string, PermitQueues>();
  /** Each has, or adopts, the lease of one call that goes on under a lock of another process. */
  readonly #adopting = new Set<LocalQueue>();
  #isClosed = false;

  constructor(parts: EngineParts) {
    this.#parts = parts;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  get size(): number {
    return [...this.#all()].length;
  }

  /**
   * Waits for one key.
   * @param terms `isOneOfSeveral`: the call wants other keys too, and the hold does not begin before `Hold.begin`
   */
  enter({ key, ...terms }: CallTerms): Promise<Hold> {
    return inNeutralContext(() => {
      const mode = terms.options.mode as HeldMode; // that of this key
      // An idle lease of another mode would block the new one. Its release is sent, and so executed, first.
      if (mode !== 'exclusive') this.#queues.get(key)?.occupancy?.giveUp();
      if (mode !== 'shared') this.#readers.get(key)?.occupancy?.giveUp();
      if (mode === 'permit') return this.#permitsOf(key).enter(terms);
      return this.#queueFor(key, mode).enter(terms);
    });
  }

  /**
   * Adopts the lease of one key for one call, beside the calls that wait for the key here: they get it when it is
   * released.
   * @param adopts gets the first command, and makes it an adoption
   */
  adopt({ key, ...terms }: CallTerms, adopts: Acquires): Promise<Hold> {
    return inNeutralContext(() => {
      const onEmpty = (queue: LocalQueue): void => void this.#adopting.delete(queue);
      const queue = new LocalQueue(this.#parts, key, 'exclusive', onEmpty, adopts);
      this.#adopting.add(queue);
      return queue.enter(terms);
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

  #of(mode: LockMode): Map<string, LocalQueue> {
    return mode === 'shared' ? this.#readers : this.#queues;
  }

  #permitsOf(key: string): PermitQueues {
    let queues = this.#permits.get(key);
    if (queues === undefined) {
      queues = new PermitQueues(this.#parts, key, ({ key: its }) => this.#permits.delete(its));
      this.#permits.set(key, queues);
    }
    return queues;
  }

  /** Whether this process has the lease of a key. */
  isHeldHere(key: string): boolean {
    return this.occupanciesOf(key).length > 0;
  }

  /** The leases of a key that this process has. */
  occupanciesOf(key: string): Occupancy[] {
    const adopting = [...this.#adopting].filter((queue) => queue.key === key);
    return [...this.queuesOf(key), ...adopting].flatMap((queue) => queue.occupancies());
  }

  /** That of the calls that want the key alone, that of those that read, and those of the calls that want a permit. */
  queuesOf(key: string): LocalQueue[] {
    const queues = [
      this.#queues.get(key),
      this.#readers.get(key),
      ...(this.#permits.get(key) ?? []),
    ];
    return queues.filter((queue) => queue !== undefined);
  }

  /** Who has the key here under this token; undefined if nobody has. */
  occupancyUnder(key: string, token: string): Occupancy | undefined {
    return this.occupanciesOf(key).find(({ lease }) => lease.token === token);
  }

  *#all(): Iterable<LocalQueue> {
    yield* this.#queues.values();
    yield* this.#readers.values();
    for (const queues of this.#permits.values()) yield* queues;
    yield* this.#adopting;
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
    const queues = this.#of(mode);
    let queue = queues.get(key);
    if (queue === undefined) {
      queue = new LocalQueue(this.#parts, key, mode, this.#onEmpty);
      queues.set(key, queue);
    }
    return queue;
  }

  readonly #onEmpty = (queue: LocalQueue): void => {
    const queues = this.#of(queue.mode as LockMode); // those of permits are in PermitQueues
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
