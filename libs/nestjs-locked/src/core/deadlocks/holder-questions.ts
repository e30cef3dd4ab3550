import type { LockWait } from '../lock-info.js';
import type { HolderAnswer, HolderQuestion } from '../store/holder-question.js';
import type { LockInspector } from '../store/lock-inspector.js';
import { atMost } from '../time/at-most.js';
import type { Clock } from '../time/clock.js';
import { readWaits, writtenWaits } from './waits-text.js';

/** A process that is alive answers within this time. */
const ANSWER_LIMIT_MS = 1_000;

/** So many answers are under way at once: a flood of questions must not delay the renewals of leases. */
const MOST_ANSWERS = 1_000;

/** Who has a key, and what the call that has it waits for. */
export interface AskedHolder {
  readonly token: string;
  /** Undefined if the process has not answered in time, or not in a form that this version knows. */
  readonly waits: readonly LockWait[] | undefined;
}

/**
 * Asks processes, this one included, what the call that holds a key waits for. Redis only carries the messages: which
 * of its calls has a key, and what that waits for, is known to the process alone.
 */
export class HolderQuestions {
  readonly #inspector: LockInspector;
  readonly #clock: Clock;
  readonly #waitsUnder: (key: string, token: string) => readonly LockWait[];
  readonly #asked = new Map<string, (text: string | undefined) => void>();
  #count = 0;
  #answers = 0;

  /** @param waitsUnder what the call waits for that has the key in this process, under this token */
  constructor(
    inspector: LockInspector,
    clock: Clock,
    waitsUnder: (key: string, token: string) => readonly LockWait[],
  ) {
    this.#inspector = inspector;
    this.#clock = clock;
    this.#waitsUnder = waitsUnder;
  }

  /** @returns undefined if nobody has the key, or another kind of client @throws LockStoreError */
  async ask(key: string): Promise<AskedHolder | undefined> {
    const id = String(++this.#count);
    const arrival = new Promise<string | undefined>((resolve) => this.#asked.set(id, resolve));
    try {
      const token = await this.#inspector.ask(key, id);
      if (token === undefined) return undefined;
      const text = await atMost(this.#clock, ANSWER_LIMIT_MS, arrival);
      return { token, waits: text === undefined ? undefined : readWaits(text) };
    } finally {
      this.#asked.delete(id);
    }
  }

  /** Called with a question of any process. Without an answer, who has asked counts it as unknown. */
  question(question: HolderQuestion): void {
    if (this.#answers < MOST_ANSWERS) void this.#answer(question).catch(() => {});
  }

  async #answer(question: HolderQuestion): Promise<void> {
    this.#answers++;
    try {
      const text = writtenWaits(this.#waitsUnder(question.key, question.token));
      await this.#inspector.answer(question, text);
    } finally {
      this.#answers--;
    }
  }

  /** Called with the answer to a question of this process. */
  answer({ id, text }: HolderAnswer): void {
    this.#asked.get(id)?.(text);
  }

  /** Ends the questions. */
  close(): void {
    for (const end of this.#asked.values()) end(undefined);
  }
}
