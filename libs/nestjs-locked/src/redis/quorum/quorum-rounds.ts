import type { AcquireReply, Busy, Granted, Unknown } from '../../core/store/lock-store.js';
import type { RedisScript } from '../scripts/redis-script.js';
import type { QuorumNode } from './quorum-node.js';
import type { QuorumPoll } from './quorum-poll.js';
import type { NoVote, Raised, Vote } from './quorum-replies.js';
import type { QuorumRequests } from './quorum-requests.js';
import { RequestRounds, type Round } from './request-rounds.js';
import { heldByOne } from './split-votes.js';
import { type VotedNumbers, votedNumbers } from './voted-numbers.js';
import { VOTED_NUMBERS } from './votes.lua.js';
import type { VotesGivenBack } from './votes-given-back.js';
import type { WaitingPlace, WaitingPlaces } from './waiting-places.js';

/** The pause after a round in which nobody got enough votes; it grows with each. */
const SPLIT_PAUSE_MS = 8;
const LONGEST_SPLIT_PAUSE_MS = 48;

/** How often a single try is repeated if others try at the same moment, so that nobody got enough. */
const MOST_SPLITS = 5;

export type VoteReply = Vote | NoVote;
export type Ballot = QuorumPoll<QuorumNode, VoteReply>;

/** What is asked for in a round. */
export interface Asked {
  readonly key: string;
  readonly token: string;
  readonly leaseMs: number;
  /** Its place in line; undefined for a single try. */
  readonly waiting?: WaitingPlace | undefined;
  /** Those of a single try. */
  readonly rounds?: RequestRounds;
}

/** The reply to a single try may say that nobody has got the key. */
export type SplitReply = Exclude<AcquireReply, Busy> | (Busy & { readonly wasSplit?: boolean });

/**
 * Rounds in which the nodes vote for a lease. One that gets too few votes gives them back, with the numbers that they
 * have reserved.
 */
export class QuorumRounds {
  readonly #requests: QuorumRequests;
  readonly #votes: VotesGivenBack;
  readonly #places: WaitingPlaces;
  readonly #random: () => number;
  /** The single tries under way, by their tokens. */
  readonly #singleTries = new Map<string, RequestRounds>();
  /** By their tokens. */
  readonly #underWay = new Map<string, Promise<SplitReply>>();

  constructor(
    requests: QuorumRequests,
    votes: VotesGivenBack,
    places: WaitingPlaces,
    random: () => number,
  ) {
    this.#requests = requests;
    this.#votes = votes;
    this.#places = places;
    this.#random = random;
  }

  /** A single try that fails because another one came at the same moment is repeated: one of them shall succeed. */
  async tryRepeatedly(asked: Asked): Promise<AcquireReply> {
    const rounds = new RequestRounds();
    this.#singleTries.set(asked.token, rounds);
    try {
      for (let tries = 1; ; tries++) {
        const reply = await this.hold({ ...asked, rounds });
        if (reply.kind !== 'busy' || !reply.wasSplit || tries === MOST_SPLITS) return reply;
        await this.pauseAfter(tries);
        if (rounds.isOver) return reply;
      }
    } finally {
      this.#singleTries.delete(asked.token);
    }
  }

  /** Called when a single try is given up: no further round of it begins. */
  giveUp(token: string): void {
    const rounds = this.#singleTries.get(token);
    if (rounds !== undefined) rounds.isOver = true;
  }

  /** Those that came at the same moment must not come at the same moment again. */
  pauseAfter(tries: number): Promise<void> {
    const { clock } = this.#requests;
    const ms = 1 + this.#random() * Math.min(LONGEST_SPLIT_PAUSE_MS, SPLIT_PAUSE_MS * tries);
    return new Promise((resolve) => void clock.after(ms, resolve));
  }

  /** The round of a token that is under way, if one is. */
  underWay(token: string): Promise<SplitReply> | undefined {
    return this.#underWay.get(token);
  }

  /** Of a request that waits, or of a single try. */
  hold(asked: Asked): Promise<SplitReply> {
    const { token } = asked;
    const reply = this.#vote(asked).then((outcome) => {
      this.#underWay.delete(token);
      if (outcome.kind === 'granted' && asked.waiting !== undefined)
        this.#places.leave(asked.waiting);
      return outcome;
    });
    this.#underWay.set(token, reply);
    return reply;
  }

  async #vote(asked: Asked): Promise<SplitReply> {
    const { key, token, leaseMs, waiting } = asked;
    const rounds = waiting?.rounds ?? asked.rounds ?? new RequestRounds();
    const round = rounds.next(token);
    const { most, scripts } = this.#requests;
    const { needed } = this.#requests.nodes;
    const args = [token, leaseMs, waiting?.place ?? '', waiting?.score ?? ''];
    const poll: Ballot = await this.#requests.poll<VoteReply>(
      (node) => this.ballotOf(node, scripts.vote, key, args),
      (ballot) => {
        const votes = ballot.count(isVote);
        if (votes >= needed) return true;
        const noes = ballot.answers().filter(isNo);
        const isLost =
          noes.length > most || (votes + ballot.pending < needed && ballot.answered >= needed);
        return isLost && heldByOne(noes, ballot.pending, needed) !== 'maybe';
      },
    );
    const votes = poll.answers().filter(isVote);
    if (votes.length >= needed) {
      const numbers = await this.numbersFor(key, token, leaseMs, votes);
      if (numbers !== undefined) {
        poll.handleEach((node, reply) => this.#leaveWhere(node, reply, asked));
        return grantOf(token, numbers, votes);
      }
    }
    poll.handleEach((node, reply) => this.#takeBackVote(node, reply, asked, rounds, round));
    return this.#lostRound(asked, poll, votes.length);
  }

  /** The vote of a node that cannot vote now is none, although it may have given it. */
  async ballotOf(
    node: QuorumNode,
    script: RedisScript,
    key: string,
    args: readonly (string | number)[],
  ): Promise<VoteReply | Unknown> {
    const reply = await this.#requests.run(node, script, [key], args, (answer) =>
      this.#requests.repliesOf(node).vote(answer),
    );
    if (reply.kind !== 'vote' || node.mayVote) return reply;
    return { kind: 'unknown', cause: node.noVote };
  }

  /** @returns undefined if the number could not be stored by enough nodes */
  async numbersFor(
    key: string,
    token: string,
    leaseMs: number,
    votes: readonly Vote[],
  ): Promise<VotedNumbers | undefined> {
    const { scripts } = this.#requests;
    const { needed } = this.#requests.nodes;
    const { first, last } = votedNumbers(votes, needed);
    if (last >= first) return { first, last };
    const raised = first + VOTED_NUMBERS;
    const poll = await this.#requests.poll<Raised>(
      (node) =>
        this.#requests.run(node, scripts.raise, [key], [token, raised, leaseMs], (reply) =>
          this.#requests.repliesOf(node).raised(reply),
        ),
      (stored) => stored.count(({ kind }) => kind === 'raised') >= needed,
    );
    const isStored = poll.count(({ kind }) => kind === 'raised') >= needed;
    return isStored ? { first, last: raised } : undefined;
  }

  /** Gives back what a round that was lost has got, or may have got, from a node. */
  #takeBackVote(
    node: QuorumNode,
    reply: VoteReply | Unknown,
    { key, token, leaseMs, waiting }: Asked,
    rounds: RequestRounds,
    round: Round,
  ): void {
    if (reply.kind === 'no' || rounds.isRepeated(round)) return;
    if (reply.kind === 'unknown' && reply.neverRan === true && !round.isRepetition) return;
    const used = reply.kind === 'vote' ? reply.first - 1 : undefined;
    // It comes back to its place, unless its request has ended.
    const isWaiting = waiting !== undefined && this.#places.of(token) === waiting;
    const place = isWaiting ? { place: waiting.place, score: waiting.score } : {};
    const isLate = (): boolean => rounds.isRepeated(round);
    this.#votes.surelyFrom(node, { key, token, used, isLate, ...place }, leaseMs);
  }

  /** Leaves the line of a node that has not voted for the lease that we have. */
  #leaveWhere(node: QuorumNode, reply: VoteReply | Unknown, { key, waiting }: Asked): void {
    if (waiting === undefined || reply.kind === 'vote') return;
    void this.#votes.from(node, { key, token: '', place: waiting.place });
  }

  #lostRound({ key, token, waiting }: Asked, poll: Ballot, votes: number): SplitReply {
    const { most } = this.#requests;
    const { needed } = this.#requests.nodes;
    const noes = poll.answers().filter(isNo);
    const unsure = this.#requests.nodes.all.length - poll.answered;
    const isTaken = noes.length > most && heldByOne(noes, unsure, needed) !== 'split';
    if (votes >= needed || poll.answered < needed)
      return this.#requests.unknown('acquire', key, poll);
    // When so many of those that others have are free, enough can be.
    const ends = noes.map(({ remainingMs }) => remainingMs).sort((a, b) => a - b);
    const remainingMs = ends[Math.max(0, needed - votes - 1)] ?? ends.at(-1) ?? 0;
    const foreign = noes.filter(({ isForeign }) => isForeign).length > most;
    if (waiting === undefined)
      return isTaken
        ? { kind: 'busy', remainingMs, foreign }
        : { kind: 'busy', remainingMs, wasSplit: true };
    const queued = { kind: 'queued', token, position: waiting.score, foreign } as const;
    if (isTaken) return { ...queued, remainingMs };
    // Nobody has got the key, and nobody tells us: those that came at the same moment try again at different ones.
    const pauseMs = (1 + this.#random() * (SPLIT_PAUSE_MS - 1)) * ++waiting.tries;
    return { ...queued, remainingMs: Math.min(LONGEST_SPLIT_PAUSE_MS, pauseMs) };
  }
}

export function isVote(reply: VoteReply): reply is Vote {
  return reply.kind === 'vote';
}

export function isNo(reply: VoteReply): reply is NoVote {
  return reply.kind === 'no';
}

export function grantOf(
  token: string,
  { first, last }: VotedNumbers,
  votes: readonly Vote[],
): Granted {
  const waiters = Math.max(...votes.map((vote) => vote.waiters));
  return { kind: 'granted', token, fence: first, blockEnd: last, waiters };
}
