import type { AcquireReply, Busy, Granted, Unknown } from '../../core/store/lock-store.js';
import type { RedisScript } from '../scripts/redis-script.js';
import type { QuorumNode } from './quorum-node.js';
import type { QuorumPoll } from './quorum-poll.js';
import type { NoVote, Raised, Vote } from './quorum-replies.js';
import type { QuorumRequests } from './quorum-requests.js';
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

/** How long that may take, which is less than a call waits for an answer; nor is the last round shorter than that. */
const LONGEST_TRY_MS = 900;
const SHORTEST_ROUND_MS = 250;

export type VoteReply = Vote | NoVote;
export type Ballot = QuorumPoll<QuorumNode, VoteReply>;

/** What is asked for in a round. */
export interface Asked {
  readonly key: string;
  readonly token: string;
  readonly leaseMs: number;
  /**
   * Which round of its request this is. A node cannot tell the votes of two rounds with one token apart otherwise, and
   * what takes back the earlier one may arrive after the later one.
   */
  readonly round: number;
  /** Its place in line; undefined for a single try. */
  readonly waiting?: WaitingPlace | undefined;
  /** How long the votes are awaited at the most. @default as long as the answers of any round */
  readonly limitMs?: number;
}

/** What became of a number that is stored before it is used. */
export type StoredNumbers =
  | (VotedNumbers & { readonly kind: 'stored' })
  /** So many votes have ended meanwhile that too few are left. */
  | { readonly kind: 'ended' }
  | Unknown;

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
  /** The tokens of the single tries under way. */
  readonly #singleTries = new Set<string>();
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
  async tryRepeatedly(key: string, token: string, leaseMs: number): Promise<AcquireReply> {
    const { clock } = this.#requests;
    const until = clock.now() + LONGEST_TRY_MS;
    const leftMs = (): number => until - clock.now();
    this.#singleTries.add(token);
    try {
      for (let round = 1; ; round++) {
        const reply = await this.#hold({ key, token, leaseMs, round, limitMs: leftMs() });
        if (reply.kind !== 'busy' || !reply.wasSplit) return reply;
        if (round === MOST_SPLITS || leftMs() < SHORTEST_ROUND_MS) return reply;
        await this.pauseAfter(round);
        if (!this.#singleTries.has(token)) return reply;
      }
    } finally {
      this.#singleTries.delete(token);
    }
  }

  /** Called when a single try is given up: no further round of it begins. */
  giveUp(token: string): void {
    this.#singleTries.delete(token);
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

  /** @param waiting the request whose next round this is; undefined if it has lost its place */
  holdFor(
    waiting: WaitingPlace | undefined,
    asked: Pick<Asked, 'key' | 'token' | 'leaseMs'>,
  ): Promise<SplitReply> {
    return this.#hold({ ...asked, waiting, round: waiting === undefined ? 1 : ++waiting.rounds });
  }

  #hold(asked: Asked): Promise<SplitReply> {
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
    const { key, token, leaseMs, waiting, round } = asked;
    const { most, scripts } = this.#requests;
    const { needed } = this.#requests.nodes;
    const args = [token, leaseMs, waiting?.place ?? '', waiting?.score ?? '', round];
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
      asked.limitMs,
    );
    const votes = poll.answers().filter(isVote);
    const numbers = votes.length >= needed ? await this.store(asked, votes) : undefined;
    if (numbers?.kind === 'stored') {
      poll.handleEach((node, reply) => this.#leaveWhere(node, reply, asked));
      return grantOf(token, numbers, votes);
    }
    poll.handleEach((node, reply) => this.#takeBackVote(node, reply, asked));
    return numbers?.kind === 'unknown' ? numbers : this.#lostRound(asked, poll, votes.length);
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

  /** The numbers of enough votes. Most often, enough nodes have stored them already. */
  async store(
    { key, token, leaseMs }: Pick<Asked, 'key' | 'token' | 'leaseMs'>,
    votes: readonly Vote[],
  ): Promise<StoredNumbers> {
    const { most, scripts } = this.#requests;
    const { needed } = this.#requests.nodes;
    const { first, last } = votedNumbers(votes, needed);
    if (last >= first) return { kind: 'stored', first, last };
    const raised = first + VOTED_NUMBERS;
    const poll = await this.#requests.poll<Raised>(
      (node) =>
        this.#requests.run(node, scripts.raise, [key], [token, raised, leaseMs], (reply) =>
          this.#requests.repliesOf(node).raised(reply),
        ),
      (stored) => stored.count(isRaised) >= needed || stored.count(isOver) > most,
    );
    if (poll.count(isRaised) >= needed) return { kind: 'stored', first, last: raised };
    if (poll.count(isOver) > most) return { kind: 'ended' };
    // The votes were carried out.
    return { ...this.#requests.unknown('acquire', key, poll), neverRan: false };
  }

  /** Gives back what a round that was lost has got, or may have got, from a node. */
  #takeBackVote(
    node: QuorumNode,
    reply: VoteReply | Unknown,
    { key, token, leaseMs, waiting, round }: Asked,
  ): void {
    if (reply.kind === 'no') return;
    if (reply.kind === 'unknown' && reply.neverRan === true) return;
    // It comes back to its place, unless its request has ended.
    const isWaiting = waiting !== undefined && this.#places.of(token) === waiting;
    const place = isWaiting ? { place: waiting.place, score: waiting.score } : {};
    this.#votes.surelyFrom(node, { key, token, used: 'none', round, ...place }, leaseMs);
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
    if (poll.answered < needed) return this.#requests.unknown('acquire', key, poll);
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

function isRaised({ kind }: Raised): boolean {
  return kind === 'raised';
}

function isOver({ kind }: Raised): boolean {
  return kind === 'no';
}

export function grantOf(
  token: string,
  { first, last }: VotedNumbers,
  votes: readonly Vote[],
): Granted {
  const waiters = Math.max(...votes.map((vote) => vote.waiters));
  return { kind: 'granted', token, fence: first, blockEnd: last, waiters };
}
