import type { Asked, HolderAnswer, HolderQuestion } from '../store/holder-question.js';
import type { LockInspector } from '../store/lock-inspector.js';
import { atMost } from '../time/at-most.js';
import type { Clock } from '../time/clock.js';
import { type HolderState, readAnswer } from './answer-text.js';

/** A process that is alive answers within this time. */
const ANSWER_LIMIT_MS = 1_000;

/** So many answers are under way at once: a flood of questions must not delay the renewals of leases. */
const MOST_ANSWERS = 1_000;

/** Who has a key, and what its process says about that. */
export interface AskedHolder extends Pick<Asked, 'token' | 'keepsOut'> {
  /** Undefined if the process has not answered in time, or not in a form that this version knows. */
  readonly answer: HolderState | undefined;
}

/** The answers about one key. */
interface Round {
  /** By the ids of their questions. */
  readonly texts: Map<string, string>;
  onAnswer: () => void;
}

/**
 * Asks processes, this one included, which of their calls has a key and what it waits for. Redis only carries the
 * messages: this is known to the processes alone.
 */
export class HolderQuestions {
  readonly #inspector: LockInspector;
  readonly #clock: Clock;
  readonly #answerTo: (question: HolderQuestion) => string;
  readonly #rounds = new Map<string, Round>();
  #isClosed = false;
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

  /**
   * @returns one holder, or the first `MOST_HOLDERS_ASKED` of several readers; none if nobody has the key, or another
   * kind of client
   * @throws LockStoreError
   */
  async ask(key: string): Promise<readonly AskedHolder[]> {
    const id = String(++this.#count);
    const round: Round = { texts: new Map(), onAnswer: () => {} };
    this.#rounds.set(id, round);
    try {
      const asked = await this.#inspector.ask(key, id);
      const isComplete = (): boolean =>
        this.#isClosed || asked.every((it) => !it.isHeard || round.texts.has(it.id));
      const answered = new Promise<void>((resolve) => {
        round.onAnswer = () => isComplete() && resolve();
      });
      round.onAnswer(); // they may have come before
      await atMost(this.#clock, ANSWER_LIMIT_MS, answered);
      return asked.map(({ token, keepsOut, id: of }) => {
        const text = round.texts.get(of);
        return { token, keepsOut, answer: text === undefined ? undefined : readAnswer(text) };
      });
    } finally {
      this.#rounds.delete(id);
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
    const round = this.#rounds.get(id.slice(0, id.indexOf('.')));
    round?.texts.set(id, text);
    round?.onAnswer();
  }

  /** Ends the questions. */
  close(): void {
    this.#isClosed = true;
    for (const { onAnswer } of this.#rounds.values()) onAnswer();
  }
}
