import type { Unknown } from '../../core/store/lock-store.js';
import type { KeepTime } from '../keep-time.js';
import { OwedVotes } from './owed-votes.js';
import type { QuorumNode } from './quorum-node.js';
import type { QuorumPoll } from './quorum-poll.js';
import type { GivenBack } from './quorum-replies.js';
import type { Arguments, QuorumRequests } from './quorum-requests.js';

export interface ToGiveBack {
  readonly key: string;
  /** '' if only a place is given back. */
  readonly token: string;
  readonly other?: string | undefined;
  /** The highest number used; 'none' if nobody has learned of the vote. @default 0: not known */
  readonly used?: number | 'none' | undefined;
  readonly keep?: KeepTime;
  /** Whether the key is kept even if it is free. */
  readonly isKeptFree?: boolean;
  readonly place?: string | undefined;
  /** With which the place is taken again. @default it is left */
  readonly score?: number | undefined;
  /** Whether the next in line is told. */
  readonly tells?: boolean;
  /** Up to which round of its request the vote is given back. @default in any case */
  readonly round?: number;
}

/** Gives back votes, with the numbers and places that belong to them. */
export class VotesGivenBack {
  readonly #requests: QuorumRequests;
  readonly #longestMs: number;
  readonly #owed: OwedVotes<QuorumNode>;

  /** @param longestMs after which a vote has ended in any case */
  constructor(requests: QuorumRequests, longestMs: number) {
    this.#requests = requests;
    this.#longestMs = longestMs;
    this.#owed = new OwedVotes(requests.clock);
  }

  /** Called when the node answers again. */
  settle(node: QuorumNode): void {
    this.#owed.settle(node);
  }

  /** From all nodes. A node that does not answer owes it. */
  async fromAll(
    what: ToGiveBack,
    isDecided: (poll: QuorumPoll<QuorumNode, GivenBack>) => boolean,
  ): Promise<QuorumPoll<QuorumNode, GivenBack>> {
    const poll = await this.#requests.poll((node) => this.from(node, what), isDecided);
    poll.handleEach((node, reply) => {
      if (reply.kind === 'unknown') this.#owe(node, what, this.#longestMs);
    });
    return poll;
  }

  /** From a node that owes it if it does not answer. */
  surelyFrom(node: QuorumNode, what: ToGiveBack, leaseMs: number): void {
    void this.from(node, what).then((reply) => {
      if (reply.kind === 'unknown') this.#owe(node, what, leaseMs);
    });
  }

  /** @param ms after which the vote has ended in any case */
  #owe(node: QuorumNode, what: ToGiveBack, ms: number): void {
    const until = this.#requests.clock.now() + ms;
    // By then, the request may have ended: if it waits, it comes back to its place itself.
    const owed = what.score === undefined ? what : { ...what, place: undefined, score: undefined };
    // What takes back an earlier round of the token takes nothing back from a later one.
    const owes = `${what.token} ${what.round ?? ''}`;
    this.#owed.add(node, owes, until, async () => {
      const reply = await this.from(node, owed);
      return reply.kind !== 'unknown';
    });
  }

  /** From one node, which may not answer. */
  from(node: QuorumNode, what: ToGiveBack): Promise<GivenBack | Unknown> {
    const {
      key,
      token,
      other = '',
      used,
      keep,
      isKeptFree,
      place = '',
      score = '',
      tells,
      round = '',
    } = what;
    const args = (): Arguments => [
      token,
      other,
      usedInScript(used),
      keep?.leftMs ?? 0,
      isKeptFree === true ? 1 : 0,
      place,
      score,
      tells === true ? 1 : 0,
      round,
    ];
    const { giveBack } = this.#requests.scripts;
    return this.#requests.run(node, giveBack, [key], args, (reply, mayHaveRunBefore) =>
      this.#requests.repliesOf(node).givenBack(reply, mayHaveRunBefore),
    );
  }
}

/** For the script, 0 means that none was used. */
function usedInScript(used: ToGiveBack['used']): number | '' {
  if (used === 'none') return 0;
  return used === undefined || used === 0 ? '' : used;
}
