import type { Clock } from '../../core/time/clock.js';

/** Takes back a vote; the result says whether the node has answered. */
export type GiveBack = () => Promise<boolean>;

/** How many votes are remembered for one node. Others end with their leases. */
const MOST_OWED = 10_000;

/**
 * Votes that a node may have given, although it did not answer when they were taken back: it was away, and may carry
 * out later what it has received. They are taken back when it answers again, unless they have ended by then.
 */
export class OwedVotes<Node> {
  readonly #clock: Clock;
  readonly #byNode = new Map<Node, Map<string, { readonly giveBack: GiveBack; until: number }>>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * @param name of what is owed; another one with the same name takes its place
   * @param until when the vote has ended in any case
   */
  add(node: Node, name: string, until: number, giveBack: GiveBack): void {
    const owed = this.#byNode.get(node) ?? new Map<string, { giveBack: GiveBack; until: number }>();
    this.#byNode.set(node, owed);
    if (owed.size >= MOST_OWED) this.#forgetEnded(owed);
    if (owed.size < MOST_OWED) owed.set(name, { giveBack, until });
  }

  #forgetEnded(owed: Map<string, { readonly until: number }>): void {
    const now = this.#clock.now();
    for (const [name, { until }] of owed) if (until <= now) owed.delete(name);
  }

  /** Called when the node answers again. */
  settle(node: Node): void {
    const owed = this.#byNode.get(node);
    this.#byNode.delete(node);
    if (owed === undefined) return;
    this.#forgetEnded(owed);
    for (const [name, { giveBack, until }] of owed) {
      void giveBack().then((isAnswered) => {
        if (!isAnswered) this.add(node, name, until, giveBack);
      });
    }
  }
}
