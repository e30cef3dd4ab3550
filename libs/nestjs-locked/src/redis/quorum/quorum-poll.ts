import type { Unknown } from '../../core/store/lock-store.js';
import { afterSilence } from '../../core/time/after-silence.js';
import type { Clock } from '../../core/time/clock.js';

/** What the nodes of a quorum have answered to the same command so far. No answer is none: never a no. */
export class QuorumPoll<Node, Reply extends { readonly kind: string }> {
  readonly replies = new Map<Node, Reply | Unknown>();
  readonly #late = new Map<Node, Reply | Unknown>();
  readonly #size: number;
  #handle: ((node: Node, reply: Reply | Unknown) => void) | undefined;

  /** @param limitMs how long the answers are awaited */
  constructor(
    size: number,
    readonly limitMs: number,
  ) {
    this.#size = size;
  }

  /** How many have neither answered nor failed. */
  get pending(): number {
    return this.#size - this.replies.size;
  }

  /** How many have answered. */
  get answered(): number {
    return this.replies.size - this.unknowns().length;
  }

  count(isCounted: (reply: Reply) => boolean): number {
    return this.answers().filter(isCounted).length;
  }

  answers(): Reply[] {
    return [...this.replies.values()].filter((reply): reply is Reply => reply.kind !== 'unknown');
  }

  unknowns(): Unknown[] {
    return [...this.replies.values()].filter((reply): reply is Unknown => reply.kind === 'unknown');
  }

  /** Handles each reply, those that are still to come as well. */
  handleEach(handle: (node: Node, reply: Reply | Unknown) => void): void {
    this.#handle = handle;
    for (const [node, reply] of [...this.replies, ...this.#late]) handle(node, reply);
  }

  /** A reply that comes after the end changes nothing. */
  addLate(node: Node, reply: Reply | Unknown): void {
    if (this.#handle === undefined) this.#late.set(node, reply);
    else this.#handle(node, reply);
  }
}

export interface PollTerms<Node, Reply extends { readonly kind: string }> {
  readonly nodes: readonly Node[];
  readonly clock: Clock;
  /** How long the answers are awaited. Time in which this process was blocked does not count. */
  readonly limitMs: number;
  /** Asks one of them; never rejects. */
  readonly ask: (node: Node) => Promise<Reply | Unknown>;
  /** Whether further answers would change nothing. */
  readonly isDecided: (poll: QuorumPoll<Node, Reply>) => boolean;
}

/** Asks all nodes at once. @returns what they have answered when it is decided, or when the time is over */
export function pollNodes<Node, Reply extends { readonly kind: string }>(
  terms: PollTerms<Node, Reply>,
): Promise<QuorumPoll<Node, Reply>> {
  const { nodes, clock, limitMs, ask, isDecided } = terms;
  const poll = new QuorumPoll<Node, Reply>(nodes.length, limitMs);
  return new Promise((resolve) => {
    let isOver = false;
    const end = (): void => {
      isOver = true;
      cancel();
      resolve(poll);
    };
    const cancel = afterSilence(clock, limitMs, end);
    for (const node of nodes) {
      void ask(node).then((reply) => {
        if (isOver) return poll.addLate(node, reply);
        poll.replies.set(node, reply);
        if (poll.pending === 0 || isDecided(poll)) end();
      });
    }
  });
}
