import type { HolderAnswer, HolderQuestion } from '../store/holder-question.js';
import type { LockInspector } from '../store/lock-inspector.js';
import { atMost } from '../time/at-most.js';
import type { Clock } from '../time/clock.js';
import { type HolderState, readAnswer } from './answer-text.js';

/** A process that is alive answers within this time. */
const ANSWER_LIMIT_MS = 1_000;

/** So many answers are under way at once: a flood of questions must not delay the renewals of leases. */
const MOST_ANSWERS = 1_000;

/** Who has a key, and what its process says about that. */
export interface AskedHolder {
  readonly token: string;
  /** Undefined if the process has not answered in time, or not in a form that this version knows. */
  readonly answer: HolderState | undefined;
}

/**
 * Asks processes, this one included, which of their calls has a key and what it waits for. Redis only carries the
 * messages: this is known to the process alone.
 */
export class HolderQuestions {
  readonly #inspector: LockInspector;
  readonly #clock: Clock;
  readonly #answerTo: (question: HolderQuestion) => string;
  readonly #asked = new Map<string, (text: string | undefined) => void>();
  #count = 0;
  #answers = 0;

  /** @param answerTo what this process says, in the form of `writtenAnswer` */
  constructor(
    inspector: LockInspector,
    clock: Clock,
    answerTo: (question: HolderQuestion) => string,
  ) {
    this.#inspector = inspector;
    this.#clock = clock;
    this.#answerTo = answerTo;
  }

  /** @returns undefined if nobody has the key, or another kind of client @throws LockStoreError */
  async ask(key: string): Promise<AskedHolder | undefined> {
    const id = String(++this.#count);
    const arrival = new Promise<string | undefined>((resolve) => this.#asked.set(id, resolve));
    try {
      const asked = await this.#inspector.ask(key, id);
      if (asked === undefined) return undefined;
      const { token, isHeard } = asked;
      const text = isHeard ? await atMost(this.#clock, ANSWER_LIMIT_MS, arrival) : undefined;
      return { token, answer: text === undefined ? undefined : readAnswer(text) };
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
      await this.#inspector.answer(question, this.#answerTo(question));
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
