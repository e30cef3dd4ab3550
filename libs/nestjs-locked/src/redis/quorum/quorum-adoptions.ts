import { LockStoreError } from '../../core/lock.errors.js';
import type { AdoptCommand, AdoptReply, Unknown } from '../../core/store/lock-store.js';
import type { QuorumNode } from './quorum-node.js';
import type { QuorumRequests } from './quorum-requests.js';
import {
  type Ballot,
  grantOf,
  isNo,
  isVote,
  type QuorumRounds,
  type VoteReply,
} from './quorum-rounds.js';
import { heldByOne } from './split-votes.js';
import type { VotesGivenBack } from './votes-given-back.js';

/** How often an adoption is repeated if others adopt at the same moment, so that nobody gets enough: half a second. */
const MOST_TRIES = 20;

/** How long it is repeated, if each round waits for a node that is silent. */
const LONGEST_MS = 2_000;

/** Too few votes have gone over, and more may with the next round. */
interface Split {
  readonly kind: 'split';
  /** Why it failed, if this was the last round. */
  readonly unknown: Unknown;
}

/** Adoptions of leases that were detached: the votes of their nodes go over to another token. */
export class QuorumAdoptions {
  readonly #requests: QuorumRequests;
  readonly #votes: VotesGivenBack;
  readonly #rounds: QuorumRounds;

  constructor(requests: QuorumRequests, votes: VotesGivenBack, rounds: QuorumRounds) {
    this.#requests = requests;
    this.#votes = votes;
    this.#rounds = rounds;
  }

  async adopt(command: AdoptCommand): Promise<AdoptReply> {
    const { clock } = this.#requests;
    const until = clock.now() + LONGEST_MS;
    for (let round = 1; ; round++) {
      const reply = await this.#adoptOnce(command, round);
      if (reply.kind !== 'split') return reply;
      if (round === MOST_TRIES || clock.now() >= until) return reply.unknown;
      await this.#rounds.pauseAfter(round);
    }
  }

  /** Adopts the votes of enough nodes, or gives them back to the old token. */
  async #adoptOnce(command: AdoptCommand, round: number): Promise<AdoptReply | Split> {
    const { key, token, newToken, leaseMs, used } = command;
    const { most, scripts, clock } = this.#requests;
    const { needed } = this.#requests.nodes;
    const sentAt = clock.now();
    const undo = (node: QuorumNode, reply: VoteReply | Unknown): void => {
      if (reply.kind !== 'vote') return;
      const leftMs = Math.floor(reply.beforeMs - (clock.now() - sentAt));
      if (leftMs <= 0)
        return this.#votes.surelyFrom(node, { key, token: newToken, used: 'none', round }, leaseMs);
      const args = [token, newToken, leftMs, round];
      void this.#requests.run(node, scripts.undoAdopt, [key], args, (answer) =>
        this.#requests.repliesOf(node).raised(answer),
      );
    };
    const args = [token, newToken, leaseMs, used, round];
    const poll: Ballot = await this.#requests.poll<VoteReply>(
      (node) => this.#rounds.ballotOf(node, scripts.adopt, key, args),
      (ballot) => ballot.count(isVote) >= needed || ballot.count(isNo) > most,
    );
    const votes = poll.answers().filter(isVote);
    const asked = { key, token: newToken, leaseMs };
    const numbers = votes.length >= needed ? await this.#rounds.store(asked, votes) : undefined;
    if (numbers?.kind === 'stored') return grantOf(newToken, numbers, votes);
    poll.handleEach(undo);
    if (numbers?.kind === 'unknown') return numbers;
    if (poll.answered < needed) return this.#requests.unknown('adopt', key, poll);
    const noes = poll.answers().filter(isNo);
    const takers = noes.filter(({ holder }) => holder !== '');
    const without = noes.length - takers.length;
    const isGone = without > most || (votes.length === 0 && noes.length > most);
    // One node may still have the old token when another process has adopted it on enough others.
    const isTaken = heldByOne(takers, 0, needed) === 'held';
    if (isGone || isTaken) return { kind: 'lost' };
    const isContested = takers.length > 0;
    return {
      kind: 'split',
      unknown: isContested ? contested(key) : this.#requests.unknown('adopt', key, poll),
    };
  }
}

function contested(key: string): Unknown {
  const reason = 'another process has tried to adopt it at the same time';
  const cause = new LockStoreError(`Cannot adopt '${key}': ${reason}`, key);
  return { kind: 'unknown', cause };
}
