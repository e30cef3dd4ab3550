import { hostname } from 'node:os';
import type { EngineParts } from '../lease/engine-parts.js';
import { LockDeadlockError } from '../lock.errors.js';
import type { LockWait } from '../lock-info.js';
import type { Hold } from '../queue/hold.js';
import type { QueuesByKey } from '../queue/queues-by-key.js';
import type { ResolvedLockOptions } from '../resolved.options.js';
import type { HolderQuestion } from '../store/holder-question.js';
import { safetyIntervalMs } from '../store/lease-timing.js';
import { templateOf } from '../template-of.js';
import { type HolderState, writtenAnswer } from './answer-text.js';
import { deadlockMessage } from './deadlock-message.js';
import { type AskedHolder, HolderQuestions } from './holder-questions.js';
import { HoldingWait, type HoldingWaitUser } from './holding-wait.js';
import { waitName } from './wait-name.js';

/** A ring of more waits is left to `waitMs`. */
const MOST_ASKED = 100;

/** So many waits look at the same time; the others look later, so that a crowd does not flood Redis with questions. */
const MOST_SEARCHES = 16;

/** A wait, and the token under which the key that it waits for is held, by one of several readers perhaps. */
interface Link {
  readonly wait: LockWait;
  readonly token: string;
}

/**
 * Finds calls that hold locks and wait for each other in a ring, in one process or in several, and ends the youngest of
 * these waits. Nothing is kept in the store for that.
 *
 * A call that waits for longer than a safety interval, and holds something, asks the process that has its key what the
 * call that has it waits for, then asks the holder of that key, and so on. If it comes back to its own wait, it asks
 * all of them again. Each wait has an id and each lease a token, used once. So whoever gives the same answer twice has
 * waited, and held, from the first answer to the second, and at the moment between the two rounds, all of them did so
 * at once: the ring was there, and it stays, because none of them can move. An unanswered question says nothing. This
 * is the detection by probes of Chandy, Misra and Haas (1983, "Distributed deadlock detection"), led by the process
 * that asks.
 *
 * Who wants a key that several calls read waits for all of them, and so does a reader that waits behind a writer. So
 * one of them that leads back is enough, whatever the others do.
 *
 * All waits of a ring find it, but only the youngest ends: it has, as a rule, done the least work.
 */
export class DeadlockSearch implements HoldingWaitUser {
  readonly questions: HolderQuestions;
  readonly #parts: EngineParts;
  readonly #queues: QueuesByKey;
  readonly #everyMs: number;
  readonly #waits = new WeakMap<Hold, Set<HoldingWait>>();
  #count = 0;
  #searches = 0;

  constructor(parts: EngineParts, queues: QueuesByKey) {
    const { store, clock, options } = parts;
    this.#parts = parts;
    this.#queues = queues;
    this.#everyMs = safetyIntervalMs(options.leaseMs);
    this.questions = new HolderQuestions(store.inspector, clock, (question) =>
      writtenAnswer(this.#here, this.#stateUnder(question)),
    );
  }

  /**
   * Watches a wait that begins now.
   * @param holds of the call and the calls around it
   * @returns undefined if it cannot be part of a deadlock, or is over before one would be found
   */
  watch(
    key: string,
    options: ResolvedLockOptions,
    holds: readonly Hold[],
  ): HoldingWait | undefined {
    if (holds.length === 0 || options.waitMs <= this.#everyMs) return undefined;
    return new HoldingWait(String(++this.#count), key, options, holds, this);
  }

  begins(wait: HoldingWait): void {
    wait.since = this.#parts.clock.wallNow();
    for (const hold of wait.holds) {
      const waits = this.#waits.get(hold);
      if (waits === undefined) this.#waits.set(hold, new Set([wait]));
      else waits.add(wait);
    }
    this.#lookLater(wait, this.#everyMs);
  }

  ends(wait: HoldingWait): void {
    this.#parts.scheduler.cancel(wait);
    for (const hold of wait.holds) this.#waits.get(hold)?.delete(wait);
  }

  isDue(wait: HoldingWait): void {
    if (this.#searches < MOST_SEARCHES) void this.#search(wait);
    else this.#lookLater(wait, this.#everyMs / 10);
  }

  #lookLater(wait: HoldingWait, ms: number): void {
    const { scheduler, clock } = this.#parts;
    scheduler.schedule(wait, clock.now() + ms + this.#parts.jitter(ms / 10));
  }

  /** Never rejects. */
  async #search(wait: HoldingWait): Promise<void> {
    this.#searches++;
    try {
      const own = this.#shown(wait);
      const ring = await this.#pathBack(own, own, new Set());
      if (ring !== undefined && isYoungest(own, ring) && (await this.#isStill(ring))) {
        this.#endWait(
          wait,
          ring.map((link) => link.wait),
        );
      }
    } catch {
      // The store has failed, so that nothing is known: the wait goes on, and ends in time.
    } finally {
      this.#searches--;
      if (!wait.isOver) this.#lookLater(wait, this.#everyMs);
    }
  }

  /** Follows the waits from one to the call that it waits for, until they lead to our own. */
  async #pathBack(
    wait: LockWait,
    own: LockWait,
    asked: Set<string>,
  ): Promise<readonly Link[] | undefined> {
    if (asked.has(waitName(wait)) || asked.size === MOST_ASKED) return undefined;
    asked.add(waitName(wait));
    const holders = await this.#askThoseWhoKeepOut(wait);
    const steps = holders.flatMap(({ token, answer }) =>
      (answer?.waits ?? []).map((next) => ({ next, link: { wait, token } })),
    );
    const last = steps.find(({ next }) => waitName(next) === waitName(own));
    if (last !== undefined) return [last.link];
    for (const { next, link } of steps) {
      const rest = await this.#pathBack(next, own, asked);
      if (rest !== undefined) return [link, ...rest];
    }
    return undefined;
  }

  /** Whether each holder of the ring still has its key under the same token, and is in the same wait. */
  async #isStill(ring: readonly Link[]): Promise<boolean> {
    const answers = await Promise.all(ring.map(({ wait }) => this.#askThoseWhoKeepOut(wait)));
    return ring.every(({ token }, i) => {
      const { wait: next } = ring[(i + 1) % ring.length] as Link;
      const holder = answers[i]?.find((it) => it.token === token);
      return holder?.answer?.waits.some((wait) => waitName(wait) === waitName(next));
    });
  }

  async #askThoseWhoKeepOut({ key }: LockWait): Promise<readonly AskedHolder[]> {
    return (await this.questions.ask(key)).filter(({ keepsOut }) => keepsOut);
  }

  #endWait(wait: HoldingWait, ring: readonly LockWait[]): void {
    const { key, options } = wait;
    if (!wait.giveUp(new LockDeadlockError(deadlockMessage(key, ring), key, ring))) return;
    const { label } = options;
    const template = templateOf(key, options.template);
    this.#parts.report({ type: 'deadlock', key, label, template, ring });
  }

  /** Which call has the key now, under this token, and what it waits for. @returns undefined without such a lease */
  #stateUnder({ key, token }: HolderQuestion): HolderState | undefined {
    const occupancy = this.#queues.occupancyUnder(key, token);
    if (occupancy === undefined) return undefined;
    // A reader whose work has lost the key stays inside, but its lease lasts only as long as others need it.
    const holds = [...occupancy.holds].filter((hold) => !hold.isOver && hold.doubt === undefined);
    const waits = holds.flatMap((hold) => [...(this.#waits.get(hold) ?? [])]);
    return { call: occupancy.call, waits: waits.map((wait) => this.#shown(wait)) };
  }

  get #here(): Pick<LockWait, 'processId' | 'host' | 'pid'> {
    return { processId: this.#parts.store.processId, host: hostname(), pid: process.pid };
  }

  #shown(wait: HoldingWait): LockWait {
    const { id, key, options, since, holds } = wait;
    return {
      ...this.#here,
      id,
      label: options.label,
      key,
      since: new Date(since),
      // A wait that was left behind, or whose lease was lost, outlives some of its holds.
      holds: holds.filter((hold) => !hold.isOver).map((hold) => hold.key),
    };
  }
}

/** All processes must come to the same result, so clocks that differ do no harm. */
function isYoungest(own: LockWait, ring: readonly Link[]): boolean {
  const isOlder = ({ wait }: Link): boolean => {
    const younger = wait.since.getTime() - own.since.getTime();
    return younger < 0 || (younger === 0 && waitName(wait) <= waitName(own));
  };
  return ring.every(isOlder);
}
