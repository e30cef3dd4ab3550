import type { HolderQuestions } from '../deadlocks/holder-questions.js';
import type { EngineParts } from '../lease/engine-parts.js';
import type { QueuesByKey } from '../queue/queues-by-key.js';
import type { Scheduled } from '../time/scheduler.js';

/** How long calls wait before the holder is asked: shorter waits cost nothing. */
const ASKED_AFTER_MS = 100;

/** Told the trace context of the hold, as W3C's `traceparent`. */
type Found = (traceParent: string) => void;

/** The calls that wait for a key, until its holder is asked. */
interface Round extends Scheduled {
  readonly calls: Set<Found>;
}

/**
 * Finds the traces of the calls in other processes for which calls here wait: one question for all calls that wait for
 * the same key, and no other within `ASKED_AFTER_MS`.
 */
export class HolderTraces {
  readonly #parts: Pick<EngineParts, 'clock' | 'scheduler'>;
  readonly #queues: Pick<QueuesByKey, 'isHeldHere'>;
  readonly #questions: Pick<HolderQuestions, 'ask'>;
  readonly #rounds = new Map<string, Round>();

  constructor(
    parts: Pick<EngineParts, 'clock' | 'scheduler'>,
    queues: Pick<QueuesByKey, 'isHeldHere'>,
    questions: Pick<HolderQuestions, 'ask'>,
  ) {
    this.#parts = parts;
    this.#queues = queues;
    this.#questions = questions;
  }

  /** @param found called if the process of the holder names a trace @returns called when the wait is over */
  find(key: string, found: Found): () => void {
    const { calls } = this.#rounds.get(key) ?? this.#newRound(key);
    calls.add(found);
    return () => {
      calls.delete(found);
      if (calls.size === 0) this.#end(key, calls);
    };
  }

  #newRound(key: string): Round {
    const { clock, scheduler } = this.#parts;
    const calls = new Set<Found>();
    const round = { calls, scheduled: undefined, onDue: () => void this.#ask(key, calls) };
    this.#rounds.set(key, round);
    scheduler.schedule(round, clock.now() + ASKED_AFTER_MS);
    return round;
  }

  #end(key: string, calls: ReadonlySet<Found>): void {
    const round = this.#rounds.get(key);
    if (round?.calls !== calls) return;
    this.#parts.scheduler.cancel(round);
    this.#rounds.delete(key);
  }

  /** Never rejects. */
  async #ask(key: string, calls: ReadonlySet<Found>): Promise<void> {
    this.#rounds.delete(key);
    if (this.#queues.isHeldHere(key)) return; // a call of this process has it by now
    try {
      const [holder] = await this.#questions.ask(key);
      const traceParent = holder?.answer?.call?.traceParent;
      if (traceParent !== undefined) for (const found of [...calls]) found(traceParent);
    } catch {
      // The store has failed: the waits go on without a link.
    }
  }
}
