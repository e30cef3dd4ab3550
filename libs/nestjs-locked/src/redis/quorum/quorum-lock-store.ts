import { LockConfigError, LockStoreError } from '../../core/lock.errors.js';
import type { KeyTerms } from '../../core/lock-mode.js';
import { acceptanceLeaseMs, safetyIntervalMs } from '../../core/store/lease-timing.js';
import { newProcessId, termsOf } from '../../core/store/lease-token.js';
import type {
  AcquireCommand,
  AcquireReply,
  AdoptCommand,
  AdoptReply,
  Busy,
  Granted,
  LeaveCommand,
  LeaveReply,
  LockStore,
  RecheckCommand,
  RecheckReply,
  ReleaseCommand,
  ReleaseReply,
  RenewCommand,
  RenewReply,
  RequeueCommand,
  RequeueReply,
  StoreListener,
  StoreMessage,
  TakeBackCommand,
  TakeBackReply,
  Unknown,
} from '../../core/store/lock-store.js';
import { atMost } from '../../core/time/at-most.js';
import type { Clock } from '../../core/time/clock.js';
import { acquireOneByOne } from '../acquire-one-by-one.js';
import type { RedisClient } from '../connection/server/redis-client.js';
import type { RedisCommand } from '../connection/traffic/redis-command.js';
import { KeepTime } from '../keep-time.js';
import type { ReadReply } from '../read-outcome.js';
import { LockScripts } from '../scripts/lock-scripts.js';
import { RedisKeys } from '../scripts/redis-keys.js';
import type { RedisScript } from '../scripts/redis-script.js';
import { FENCE_KEEP_MS, START_MS } from '../store-defaults.js';
import { OwedVotes } from './owed-votes.js';
import { QuorumInspector } from './quorum-inspector.js';
import type { QuorumNode } from './quorum-node.js';
import { QuorumNodes } from './quorum-nodes.js';
import { pollNodes, type QuorumPoll } from './quorum-poll.js';
import {
  type GivenBack,
  type NoVote,
  type Prolonged,
  QuorumReplies,
  type Raised,
  type Vote,
} from './quorum-replies.js';
import { QuorumScripts } from './quorum-scripts.js';
import { type VotedNumbers, votedNumbers } from './voted-numbers.js';
import { VOTED_NUMBERS } from './votes.lua.js';
import { type WaitingPlace, WaitingPlaces } from './waiting-places.js';

export interface QuorumLockStoreOptions {
  /** One for each node, from whose options our own connections are made. */
  readonly clients: readonly RedisClient[];
  readonly clock: Clock;
  /** Precedes every key and channel, e.g. `lock:`. */
  readonly keyPrefix: string;
  /** The service's lease, from which the time limits follow. */
  readonly leaseMs: number;
  /** How long the first `open` waits for enough nodes. @default 10 seconds */
  readonly startMs?: number;
  /** How long the fence of one lock is kept. @default 10 minutes */
  readonly fenceKeepMs?: number;
  /** How long a node that has started gives no vote; no lease may be longer. @default `leaseMs` */
  readonly rejoinAfterMs?: number | undefined;
  /** From 0 to 1, like `Math.random`. */
  readonly random?: () => number;
  /** Called after the store has stopped using the clients. */
  readonly closeClients: () => Promise<void>;
}

/** A script with more keys would block a node for too long. */
const LEASES_PER_SCRIPT = 100;

/** The longest time that a command may take before its node counts as silent. */
const LONGEST_COMMAND_MS = 5_000;

/** The longest time that the answers of a round are awaited: a node that is silent must not keep the others waiting. */
const LONGEST_ROUND_MS = 500;

/** The pause after a round in which nobody got enough votes; it grows with each. */
const SPLIT_PAUSE_MS = 8;
const LONGEST_SPLIT_PAUSE_MS = 48;

/** How often a single try, or an adoption, is repeated if others try at the same moment, so that nobody got enough. */
const MOST_SPLITS = 5;

/** How often the waiter that may take a key next looks whether it has come free, at least. */
const TURN_PAUSE_MS = 25;

type VoteReply = Vote | NoVote;
type Ballot = QuorumPoll<QuorumNode, VoteReply>;

/**
 * Keeps leases in an odd number of independent Redis masters. A lease counts when more than half of them have voted
 * for it within its time. No node knows of another, and an answer that does not come is never taken for a no.
 *
 * Two leases of one key would need a node that has voted for both. What a node votes for stays there for the time of
 * the lease, unless the node loses its data: then it gives no vote for as long as a lease may last (`rejoinAfterMs`).
 *
 * A round that gets too few votes gives them back with the numbers that they have reserved. Those that wait stand in
 * line on all nodes, with one score; a release gives the first of them a short turn, in which nobody else can take the
 * key. It then has to win a round like everybody.
 */
export class QuorumLockStore implements LockStore {
  readonly processId = newProcessId();
  readonly commandTimeoutMs: number;
  readonly inspector: QuorumInspector;
  readonly #options: QuorumLockStoreOptions;
  readonly #keys: RedisKeys;
  readonly #scripts: QuorumScripts;
  readonly #nodes: QuorumNodes;
  readonly #rejoinAfterMs: number;
  readonly #roundMs: number;
  readonly #random: () => number;
  readonly #places = new WaitingPlaces();
  /** The rounds under way, by their tokens. */
  readonly #rounds = new Map<string, Promise<SplitReply>>();
  readonly #owed: OwedVotes<QuorumNode>;
  readonly #replies = new Map<QuorumNode, QuorumReplies>();
  #isRepeated = false;
  #latestScore = 0;

  constructor(options: QuorumLockStoreOptions) {
    const { clients, clock, keyPrefix, leaseMs, fenceKeepMs = FENCE_KEEP_MS } = options;
    const { rejoinAfterMs = leaseMs, random = Math.random } = options;
    this.#options = options;
    this.#rejoinAfterMs = rejoinAfterMs;
    this.#random = random;
    this.#keys = new RedisKeys(keyPrefix, true);
    const { inboxPrefix } = this.#keys;
    const youngMs = rejoinAfterMs === 0 ? 0 : longestLeaseMs(rejoinAfterMs);
    this.#scripts = new QuorumScripts({ inboxPrefix, fenceKeepMs, youngMs });
    const acceptMs = acceptanceLeaseMs(leaseMs);
    const scripts = new LockScripts({ inCluster: false, inboxPrefix, acceptMs, fenceKeepMs });
    const { inspect, revoke, askHolder, answerQuestion, probe } = scripts;
    this.commandTimeoutMs = Math.min(LONGEST_COMMAND_MS, Math.ceil(leaseMs / 3));
    this.#roundMs = Math.min(LONGEST_ROUND_MS, this.commandTimeoutMs);
    this.#owed = new OwedVotes(clock);
    this.#nodes = new QuorumNodes(
      clients,
      {
        clock,
        keys: this.#keys,
        processId: this.processId,
        scripts: [...this.#scripts.all, inspect, revoke, askHolder, answerQuestion, probe],
        probe,
        timeLimitMs: this.commandTimeoutMs,
        leaseMs,
        pingEveryMs: safetyIntervalMs(leaseMs),
      },
      scripts,
      youngMs,
    );
    for (const node of this.#nodes.all)
      this.#replies.set(node, new QuorumReplies(node.address, rejoinAfterMs));
    this.inspector = new QuorumInspector(this.#nodes, clock, this.commandTimeoutMs);
  }

  get address(): string {
    return this.#nodes.address;
  }

  listensFor(): boolean {
    return this.#nodes.areListening;
  }

  refusalOf({ mode }: KeyTerms, leaseMs: number): LockConfigError | undefined {
    if (mode !== 'exclusive') {
      const what = mode === 'shared' ? "mode: 'shared'" : 'permits';
      return new LockConfigError(
        `${what} cannot be used with a quorum, whose nodes vote for one holder; lock the key alone, or keep these locks in a service of their own, with one server as connection`,
      );
    }
    if (!this.#isTooLong(leaseMs, this.#rejoinAfterMs)) return undefined;
    return new LockConfigError(
      `leaseMs ${leaseMs} is longer than rejoinAfterMs ${this.#rejoinAfterMs} of the quorum: a node that has lost its data would vote again while the lease lasts; set connection: { quorum, rejoinAfterMs: ${leaseMs} } or more in all processes`,
    );
  }

  #isTooLong(leaseMs: number, longestMs = longestLeaseMs(this.#rejoinAfterMs)): boolean {
    return this.#rejoinAfterMs > 0 && leaseMs > longestMs;
  }

  /** May be called again after it has failed. */
  async open(listener: StoreListener): Promise<void> {
    const { startMs = START_MS } = this.#options;
    const limitMs = this.#isRepeated ? Math.max(startMs, START_MS) : startMs;
    if (!this.#isRepeated) listener.storeAwaited?.(new LockStoreError('it has not answered yet'));
    this.#isRepeated = true;
    try {
      await this.#nodes.open(
        {
          message: (message) => this.#received(message, listener),
          reconnected: () => listener.reconnected(),
          inboxLost: (_, cause) => listener.inboxLost(undefined, cause),
          inboxFails: (cause) => listener.inboxFails?.(cause),
          inboxBack: () => listener.inboxBack?.(),
          connectionReplaced: (cause) => listener.connectionReplaced?.(cause),
          storeAwaited: (cause) => listener.storeAwaited?.(cause),
          storeLost: (cause) => listener.storeLost(cause),
          storeBack: () => listener.storeBack(),
          nodeLost: (cause, node) => listener.nodeLost?.(cause, node),
          nodeBack: (node) => listener.nodeBack?.(node),
          nodeReturned: (node) => this.#owed.settle(node),
          mayEvict: (policy) => listener.mayEvict(policy),
        },
        limitMs,
      );
    } catch (error) {
      this.#nodes.close();
      await this.#options.closeClients();
      throw error;
    }
  }

  /** Waits for the commands in flight on the nodes that answer, because leases that they acquire must be released. */
  async close(limitMs = this.commandTimeoutMs): Promise<void> {
    const { all } = this.#nodes;
    const inGoodOrder = Promise.all(
      all.map(async (node) => {
        await node.idle();
        await node.inspector.leave();
      }),
    );
    await atMost(this.#options.clock, limitMs, inGoodOrder);
    this.#nodes.close();
    await this.#options.closeClients();
  }

  /** A node may tell a waiter that it is its turn. All of them tell the same one, as far as they agree. */
  #received(message: StoreMessage, listener: StoreListener): void {
    if (message.kind !== 'head') return listener.message(message);
    const waiting = this.#places.at(message.token);
    if (waiting !== undefined) {
      waiting.tries = 0;
      return listener.message({ ...message, token: waiting.token });
    }
    // Nobody here waits any more: others must not wait until the turn is over.
    const { key, token: place } = message;
    for (const node of this.#nodes.all)
      void this.#giveBack(node, { key, token: '', place, tells: true });
  }

  // ---- rounds -----------------------------------------------------------------------------------------------

  acquire({ key, token, leaseMs, nowait, position }: AcquireCommand): Promise<AcquireReply> {
    const refusal = this.#refusalOf(key, token, leaseMs);
    if (refusal !== undefined) return Promise.resolve(refusal);
    if (nowait) return this.#tryRepeatedly({ key, token, leaseMs });
    const waiting = this.#places.take(token, position ?? this.#newScore());
    return this.#round({ key, token, leaseMs, waiting }).then((reply) => {
      if (isUntried(reply)) this.#places.leave(waiting); // nobody takes it back
      return reply;
    });
  }

  async recheck(command: RecheckCommand): Promise<RecheckReply> {
    const { key, token, newToken, leaseMs, position } = command;
    const waiting = this.#places.take(newToken, position, token);
    const reply = await this.#round({ key, token: newToken, leaseMs, waiting });
    // The waiter goes on with its old token.
    if (isUntried(reply)) this.#places.take(token, position, newToken);
    return reply as RecheckReply; // without a place, it would be busy
  }

  acquireTogether(commands: readonly AcquireCommand[]): Promise<readonly AcquireReply[]> {
    const firsts = new Map<string, number>();
    const store: Pick<LockStore, 'acquire' | 'release'> = {
      acquire: async (command) => {
        const reply = await this.acquire(command);
        if (reply.kind === 'granted') firsts.set(reply.token, reply.fence);
        return reply;
      },
      // With its numbers, none of which was used.
      release: (command) =>
        this.release({ ...command, used: (firsts.get(command.token) ?? 1) - 1 }),
    };
    return acquireOneByOne(store, commands, this.#options.clock);
  }

  #refusalOf(key: string, token: string, leaseMs: number): Unknown | undefined {
    const refusal = this.refusalOf(termsOf(token) ?? { mode: 'exclusive' }, leaseMs);
    if (refusal === undefined) return undefined;
    const cause = new LockStoreError(refusal.message, key, { cause: refusal });
    return { kind: 'unknown', cause, isLasting: true, neverRan: true };
  }

  /** The present moment, later than all scores before. */
  #newScore(): number {
    const now = Math.floor(this.#options.clock.wallNow() * 1_000);
    return (this.#latestScore = Math.max(this.#latestScore + 1, now));
  }

  /** A single try that fails because another one came at the same moment is repeated: one of them shall succeed. */
  async #tryRepeatedly(asked: Asked): Promise<AcquireReply> {
    for (let tries = 1; ; tries++) {
      const reply = await this.#round(asked);
      if (reply.kind !== 'busy' || !reply.wasSplit || tries === MOST_SPLITS) return reply;
      await this.#pause(1 + this.#random() * SPLIT_PAUSE_MS * tries);
    }
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#options.clock.after(ms, resolve));
  }

  #round(asked: Asked): Promise<SplitReply> {
    const { token } = asked;
    const reply = this.#vote(asked).then((outcome) => {
      this.#rounds.delete(token);
      if (outcome.kind === 'granted' && asked.waiting !== undefined)
        this.#places.leave(asked.waiting);
      return outcome;
    });
    this.#rounds.set(token, reply);
    return reply;
  }

  async #vote(asked: Asked): Promise<SplitReply> {
    const { key, token, leaseMs, waiting } = asked;
    const { needed, all } = this.#nodes;
    const most = all.length - needed;
    const args = [token, leaseMs, waiting?.place ?? '', waiting?.score ?? ''];
    let handle: ((node: QuorumNode, reply: VoteReply | Unknown) => void) | undefined;
    const early: [QuorumNode, VoteReply | Unknown][] = [];
    const late = (node: QuorumNode, reply: VoteReply | Unknown): void => {
      if (handle === undefined) early.push([node, reply]);
      else handle(node, reply);
    };
    const poll: Ballot = await this.#poll<VoteReply>(
      (node) => this.#ballotOf(node, this.#scripts.vote, key, args),
      (ballot) => {
        const votes = ballot.count(isVote);
        if (votes >= needed || ballot.count(isNo) > most) return true;
        return votes + ballot.pending < needed && ballot.answered >= needed;
      },
      late,
    );
    const votes = poll.answers().filter(isVote);
    if (votes.length >= needed) {
      const numbers = await this.#numbersFor(key, token, leaseMs, votes);
      if (numbers !== undefined) {
        handle = (node, reply) => this.#leaveWhere(node, reply, asked);
        for (const [node, reply] of [...poll.replies, ...early]) handle(node, reply);
        return grantOf(token, numbers, votes);
      }
    }
    handle = (node, reply) => this.#takeBackVote(node, reply, asked);
    for (const [node, reply] of [...poll.replies, ...early]) handle(node, reply);
    return this.#lostRound(asked, poll, votes.length);
  }

  /** The vote of a node that cannot vote now is none, although it may have given it. */
  async #ballotOf(
    node: QuorumNode,
    script: RedisScript,
    key: string,
    args: readonly (string | number)[],
  ): Promise<VoteReply | Unknown> {
    const reply = await this.#run(node, script, [key], args, (answer) =>
      this.#repliesOf(node).vote(answer),
    );
    if (reply.kind !== 'vote' || node.mayVote) return reply;
    return { kind: 'unknown', cause: node.noVote };
  }

  /** @returns undefined if the number could not be stored by enough nodes */
  async #numbersFor(
    key: string,
    token: string,
    leaseMs: number,
    votes: readonly Vote[],
  ): Promise<VotedNumbers | undefined> {
    const { needed } = this.#nodes;
    const { first, last } = votedNumbers(votes, needed);
    if (last >= first) return { first, last };
    const raised = first + VOTED_NUMBERS;
    const poll = await this.#poll<Raised>(
      (node) =>
        this.#run(node, this.#scripts.raise, [key], [token, raised, leaseMs], (reply) =>
          this.#repliesOf(node).raised(reply),
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
  ): void {
    if (reply.kind === 'no' || (reply.kind === 'unknown' && reply.neverRan === true)) return;
    const used = reply.kind === 'vote' ? reply.first - 1 : undefined;
    // It comes back to its place, unless its request has ended.
    const isWaiting = waiting !== undefined && this.#places.of(token) === waiting;
    const place = isWaiting ? { place: waiting.place, score: waiting.score } : {};
    this.#sureGiveBack(node, { key, token, used, ...place }, leaseMs);
  }

  /** Leaves the line of a node that has not voted for the lease that we have. */
  #leaveWhere(node: QuorumNode, reply: VoteReply | Unknown, { key, waiting }: Asked): void {
    if (waiting === undefined || reply.kind === 'vote') return;
    void this.#giveBack(node, { key, token: '', place: waiting.place });
  }

  #lostRound({ key, token, waiting }: Asked, poll: Ballot, votes: number): SplitReply {
    const { needed, all } = this.#nodes;
    const noes = poll.answers().filter(isNo);
    const isTaken = noes.length > all.length - needed;
    if (votes >= needed || poll.answered < needed) return this.#unknown('acquire', key, poll);
    // When so many of those that others have are free, enough can be.
    const ends = noes.map(({ remainingMs }) => remainingMs).sort((a, b) => a - b);
    const remainingMs = ends[Math.max(0, needed - votes - 1)] ?? ends.at(-1) ?? 0;
    const foreign = noes.filter(({ isForeign }) => isForeign).length > all.length - needed;
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

  // ---- keeping ----------------------------------------------------------------------------------------------

  /** A lease that would be longer than a node stays without a vote after a restart is not prolonged at all. */
  renew(commands: readonly RenewCommand[]): readonly Promise<RenewReply>[] {
    const usual = commands.filter(({ leaseMs }) => !this.#isTooLong(leaseMs));
    const renewed = this.#renewUsual(usual);
    let i = 0;
    return commands.map(({ key, leaseMs }) => {
      if (!this.#isTooLong(leaseMs)) return renewed[i++] as Promise<RenewReply>;
      const cause = this.refusalOf({ mode: 'exclusive' }, leaseMs);
      const message = `Cannot renew '${key}': ${cause?.message}`;
      const unknown = { kind: 'unknown', neverRan: true } as const;
      return Promise.resolve({ ...unknown, cause: new LockStoreError(message, key, { cause }) });
    });
  }

  #renewUsual(commands: readonly RenewCommand[]): readonly Promise<RenewReply>[] {
    const replies: Promise<RenewReply>[] = [];
    for (let from = 0; from < commands.length; from += LEASES_PER_SCRIPT) {
      const portion = commands.slice(from, from + LEASES_PER_SCRIPT);
      const renewed = this.#renewPortion(portion);
      replies.push(...portion.map((_, i) => renewed.then((all) => all[i] as RenewReply)));
    }
    return replies;
  }

  async #renewPortion(commands: readonly RenewCommand[]): Promise<readonly RenewReply[]> {
    const replies = await this.#renewOnce(commands);
    const again = commands.filter((_, i) => replies[i]?.kind === 'again');
    // A vote that a node has taken back counts from the next renewal on, which may follow at once.
    const second = again.length === 0 ? [] : await this.#renewOnce(again);
    return replies.map((reply, i) => {
      const last =
        reply.kind === 'again' ? second[again.indexOf(commands[i] as RenewCommand)] : reply;
      if (last?.kind !== 'again') return last as RenewReply;
      const reason = 'too few nodes have kept it, and some have taken it back';
      const { key } = commands[i] as RenewCommand;
      return {
        kind: 'unknown',
        cause: new LockStoreError(`Cannot renew '${key}': ${reason}`, key),
      };
    });
  }

  async #renewOnce(
    commands: readonly RenewCommand[],
  ): Promise<readonly (RenewReply | { readonly kind: 'again' })[]> {
    const { needed, all } = this.#nodes;
    const most = all.length - needed;
    const keys = commands.map(({ key }) => key);
    const args = commands.flatMap(({ token, leaseMs, used }) => [
      token,
      leaseMs,
      used === 0 ? 0 : lastAfter(used),
    ]);
    interface Answers {
      readonly kind: 'answers';
      readonly each: readonly (Prolonged | Unknown)[];
    }
    const countOf = (
      poll: QuorumPoll<QuorumNode, Answers>,
      i: number,
      kind: Prolonged['kind'],
    ): number => poll.count(({ each }) => each[i]?.kind === kind);
    // A node that has taken it back had lost it: with so many, others may have had the key meanwhile.
    const without = (poll: QuorumPoll<QuorumNode, Answers>, i: number): number =>
      countOf(poll, i, 'no') + countOf(poll, i, 'again');
    const action = keys.length === 1 ? undefined : `renew ${keys.length} leases`;
    const poll = await this.#poll<Answers>(
      (node) =>
        this.#run(
          node,
          this.#scripts.renew,
          keys,
          args,
          (reply) => ({
            kind: 'answers',
            each: this.#repliesOf(node).renewed(reply, keys.length),
          }),
          action,
        ),
      (answers) =>
        keys.every(
          (_, i) => countOf(answers, i, 'renewed') >= needed || without(answers, i) > most,
        ),
    );
    return commands.map(({ key, token, used }, i) => {
      const renewed = countOf(poll, i, 'renewed');
      const waiters = Math.max(0, ...poll.answers().map(({ each }) => waitersIn(each[i])));
      if (renewed >= needed)
        return { kind: 'renewed', waiters, blockEnd: used === 0 ? 0 : lastAfter(used) };
      if (without(poll, i) > most) {
        for (const node of all) void this.#giveBack(node, { key, token });
        return { kind: 'lost' };
      }
      if (renewed + countOf(poll, i, 'again') >= needed) return { kind: 'again' };
      const failures = poll.answers().flatMap(({ each }) => {
        const reply = each[i];
        return reply?.kind === 'unknown' ? [reply] : [];
      });
      return this.#unknown('renew', key, poll, failures);
    });
  }

  async adopt(command: AdoptCommand): Promise<AdoptReply> {
    const { key, newToken, leaseMs } = command;
    const refusal = this.#refusalOf(key, newToken, leaseMs);
    if (refusal !== undefined) return refusal;
    for (let tries = 1; ; tries++) {
      const reply = await this.#adoptOnce(command);
      if (reply.kind !== 'split') return reply;
      if (tries === MOST_SPLITS) {
        const reason = 'another process has tried to adopt it at the same time';
        const cause = new LockStoreError(`Cannot adopt '${key}': ${reason}`, key);
        return { kind: 'unknown', cause };
      }
      await this.#pause(1 + this.#random() * SPLIT_PAUSE_MS * tries);
    }
  }

  /** Adopts the votes of enough nodes, or gives them back to the old token. */
  async #adoptOnce(command: AdoptCommand): Promise<AdoptReply | { readonly kind: 'split' }> {
    const { key, token, newToken, leaseMs, used } = command;
    const { needed, all } = this.#nodes;
    const most = all.length - needed;
    const sentAt = this.#options.clock.now();
    const undo = (node: QuorumNode, reply: VoteReply | Unknown): void => {
      if (reply.kind !== 'vote') return;
      const leftMs = Math.floor(reply.beforeMs - (this.#options.clock.now() - sentAt));
      if (leftMs <= 0) return this.#sureGiveBack(node, { key, token: newToken }, leaseMs);
      void this.#run(node, this.#scripts.undoAdopt, [key], [token, newToken, leftMs], (answer) =>
        this.#repliesOf(node).raised(answer),
      );
    };
    let isWon = false;
    const args = [token, newToken, leaseMs, used];
    const poll: Ballot = await this.#poll<VoteReply>(
      (node) => this.#ballotOf(node, this.#scripts.adopt, key, args),
      (ballot) => ballot.count(isVote) >= needed || ballot.count(isNo) > most,
      (node, reply) => {
        if (!isWon) undo(node, reply);
      },
    );
    const votes = poll.answers().filter(isVote);
    if (votes.length >= needed) {
      const numbers = await this.#numbersFor(key, newToken, leaseMs, votes);
      if (numbers !== undefined) {
        isWon = true;
        return grantOf(newToken, numbers, votes);
      }
    }
    for (const [node, reply] of poll.replies) undo(node, reply);
    if (poll.answered < needed || votes.length >= needed) return this.#unknown('adopt', key, poll);
    return votes.length === 0 && poll.count(isNo) > most ? { kind: 'lost' } : { kind: 'split' };
  }

  // ---- giving back ------------------------------------------------------------------------------------------

  async release({ key, token, used, keepMs }: ReleaseCommand): Promise<ReleaseReply> {
    const keep = new KeepTime(this.#options.clock, keepMs);
    return (await this.#release({ key, token, used, keep })).reply;
  }

  async requeue(command: RequeueCommand): Promise<RequeueReply> {
    const { key, token, used, newToken, leaseMs, waitedMs = 0 } = command;
    const waiting = this.#places.take(newToken, this.#newScore() - Math.floor(waitedMs * 1_000));
    const { place, score } = waiting;
    const { reply, next } = await this.#release({ key, token, used, place, score });
    if (isUntried(reply)) this.#places.leave(waiting);
    if (reply.kind === 'unknown') return reply;
    const wasLost = reply.kind === 'lost';
    const told = next.filter((it) => it !== '');
    // It is the turn of another process, unless most nodes say that it is ours.
    if (told.filter((it) => it !== place).length > told.length / 2)
      return {
        kind: 'queued',
        token: newToken,
        position: score,
        remainingMs: TURN_PAUSE_MS,
        foreign: false,
        wasLost,
      };
    const asked = (await this.#round({ key, token: newToken, leaseMs, waiting })) as RecheckReply;
    return asked.kind === 'unknown' ? { ...asked, wasReleased: !wasLost } : { ...asked, wasLost };
  }

  async #release(
    what: ToGiveBack,
  ): Promise<{ readonly reply: ReleaseReply; readonly next: readonly string[] }> {
    const { needed, all } = this.#nodes;
    const most = all.length - needed;
    const wasOurs = (reply: GivenBack): boolean => reply.wasOurs;
    const wasNot = (reply: GivenBack): boolean => !reply.wasOurs;
    const poll = await this.#giveBackAll(
      { ...what, tells: true },
      (answers) => answers.count(wasOurs) >= needed || answers.count(wasNot) > most,
    );
    const next = poll.answers().map((reply) => reply.next);
    if (poll.count(wasOurs) >= needed) return { reply: { kind: 'released' }, next };
    if (poll.count(wasNot) > most) return { reply: { kind: 'lost' }, next };
    return { reply: this.#unknown('release', what.key, poll), next };
  }

  /** The last try of a waiter, after the one that may be in flight. */
  async leave({ key, tokens: [token, other], leaseMs }: LeaveCommand): Promise<LeaveReply> {
    const waiting = this.#places.of(other ?? token) ?? this.#places.of(token);
    const before = other === undefined ? undefined : await this.#rounds.get(other);
    if (before?.kind === 'granted') return before;
    const reply = await this.#round({ key, token, leaseMs, waiting });
    if (reply.kind === 'granted' || reply.kind === 'unknown') return reply;
    if (waiting !== undefined) this.#places.leave(waiting);
    const place = waiting?.place;
    for (const node of this.#nodes.all)
      void this.#giveBack(node, { key, token, other, place, tells: true });
    return { kind: 'left' };
  }

  takeBack(commands: readonly TakeBackCommand[]): readonly Promise<TakeBackReply>[] {
    return commands.map((command) => this.#takeBack(command));
  }

  /** What a few nodes may still have does not keep anybody from getting enough votes. */
  async #takeBack({ key, tokens, used, keepMs = 0 }: TakeBackCommand): Promise<TakeBackReply> {
    const [token, other] = tokens;
    let place: string | undefined;
    for (const each of tokens) {
      const waiting = each === undefined ? undefined : this.#places.of(each);
      if (waiting === undefined) continue;
      place = waiting.place;
      this.#places.leave(waiting);
    }
    const keep = new KeepTime(this.#options.clock, keepMs);
    const isKeptFree = keepMs > 0;
    const { needed } = this.#nodes;
    const poll = await this.#giveBackAll(
      { key, token, other, used, keep, isKeptFree, place, tells: true },
      ({ answered }) => answered >= needed,
    );
    return poll.answered >= needed ? { kind: 'left' } : this.#unknown('take back', key, poll);
  }

  async #giveBackAll(
    what: ToGiveBack,
    isDecided: (poll: QuorumPoll<QuorumNode, GivenBack>) => boolean,
  ): Promise<QuorumPoll<QuorumNode, GivenBack>> {
    const { leaseMs } = this.#options;
    const failed = (node: QuorumNode, reply: GivenBack | Unknown): void => {
      if (reply.kind === 'unknown') this.#owe(node, what, Math.max(leaseMs, this.#rejoinAfterMs));
    };
    const ask = (node: QuorumNode): Promise<GivenBack | Unknown> => this.#giveBack(node, what);
    const poll = await this.#poll(ask, isDecided, failed);
    for (const [node, reply] of poll.replies) failed(node, reply);
    return poll;
  }

  #sureGiveBack(node: QuorumNode, what: ToGiveBack, leaseMs: number): void {
    void this.#giveBack(node, what).then((reply) => {
      if (reply.kind === 'unknown') this.#owe(node, what, leaseMs);
    });
  }

  /** @param ms after which the vote has ended in any case */
  #owe(node: QuorumNode, what: ToGiveBack, ms: number): void {
    const until = this.#options.clock.now() + ms;
    this.#owed.add(node, what.token, until, async () => {
      const reply = await this.#giveBack(node, what);
      return reply.kind !== 'unknown';
    });
  }

  #giveBack(node: QuorumNode, what: ToGiveBack): Promise<GivenBack | Unknown> {
    const { key, token, other = '', used, keep, isKeptFree, place = '', score = '', tells } = what;
    const args = (): Arguments => [
      token,
      other,
      used === undefined || used === 0 ? '' : used,
      keep?.leftMs ?? 0,
      isKeptFree === true ? 1 : 0,
      place,
      score,
      tells === true ? 1 : 0,
    ];
    return this.#run(node, this.#scripts.giveBack, [key], args, (reply, mayHaveRunBefore) =>
      this.#repliesOf(node).givenBack(reply, mayHaveRunBefore),
    );
  }

  // ---- asking -----------------------------------------------------------------------------------------------

  #poll<Reply extends { readonly kind: string }>(
    ask: (node: QuorumNode) => Promise<Reply | Unknown>,
    isDecided: (poll: QuorumPoll<QuorumNode, Reply>) => boolean,
    late?: (node: QuorumNode, reply: Reply | Unknown) => void,
  ): Promise<QuorumPoll<QuorumNode, Reply>> {
    const { clock } = this.#options;
    const terms = { nodes: this.#nodes.all, clock, limitMs: this.#roundMs, ask, isDecided };
    return pollNodes<QuorumNode, Reply>(late === undefined ? terms : { ...terms, late });
  }

  #run<Reply>(
    node: QuorumNode,
    script: RedisScript,
    keys: readonly string[],
    args: Arguments | (() => Arguments),
    read: ReadReply<Reply>,
    action = `${script.name} '${keys[0]}'`,
  ): Promise<Reply | Unknown> {
    const redisKeys = keys.flatMap((key) => this.#keys.of(key).slice(0, 3));
    const command: RedisCommand = {
      action,
      keys,
      send: (redis, whole) =>
        script.send(redis, redisKeys, typeof args === 'function' ? args() : args, whole),
    };
    return node.run(command, read);
  }

  #repliesOf(node: QuorumNode): QuorumReplies {
    return this.#replies.get(node) as QuorumReplies;
  }

  /** @param failures those of a part of what was asked */
  #unknown<Reply extends { readonly kind: string }>(
    action: string,
    key: string,
    poll: QuorumPoll<QuorumNode, Reply>,
    failures: readonly Unknown[] = [],
  ): Unknown {
    const { all, needed } = this.#nodes;
    const unknowns = [...poll.unknowns(), ...failures];
    const reasons = all.flatMap((node) => {
      const reply = poll.replies.get(node);
      if (reply === undefined) return `${node.address}: no answer within ${this.#roundMs} ms`;
      if (reply.kind !== 'unknown') return [];
      return `${node.address}: ${(reply as Unknown).cause.message.replace(/^Cannot [^:]*: /, '')}`;
    });
    reasons.push(...failures.map(({ cause }) => cause.message));
    const why = reasons.length === 0 ? '' : `: ${[...new Set(reasons)].join('; ')}`;
    const counted = `${needed} of the ${all.length} nodes of the quorum must agree, and too few have${why}`;
    const [first] = unknowns;
    const cause = new LockStoreError(`Cannot ${action} '${key}': ${counted}`, key, {
      cause: first?.cause,
    });
    const most = all.length - needed;
    const areMost = (is: (unknown: Unknown) => boolean | undefined): boolean =>
      unknowns.filter((unknown) => is(unknown) === true).length > most;
    return {
      kind: 'unknown',
      cause,
      isLasting: areMost(({ isLasting }) => isLasting),
      isRefused: areMost(({ isRefused }) => isRefused),
      neverRan:
        unknowns.length === all.length && unknowns.every(({ neverRan }) => neverRan === true),
    };
  }
}

type Arguments = readonly (string | number)[];

/** What is asked for in a round. */
interface Asked {
  readonly key: string;
  readonly token: string;
  readonly leaseMs: number;
  /** Its place in line; undefined for a single try. */
  readonly waiting?: WaitingPlace | undefined;
}

/** The reply to a single try may say that nobody has got the key. */
type SplitReply = Exclude<AcquireReply, Busy> | (Busy & { readonly wasSplit?: boolean });

interface ToGiveBack {
  readonly key: string;
  /** '' if only a place is given back. */
  readonly token: string;
  readonly other?: string | undefined;
  /** The highest number used. @default 0: not known */
  readonly used?: number | undefined;
  readonly keep?: KeepTime;
  /** Whether the key is kept even if it is free. */
  readonly isKeptFree?: boolean;
  readonly place?: string | undefined;
  /** With which the place is taken again. @default it is left */
  readonly score?: number | undefined;
  /** Whether the next in line is told. */
  readonly tells?: boolean;
}

/** Whether no node has carried anything out. */
function isUntried(reply: SplitReply | ReleaseReply): boolean {
  return reply.kind === 'unknown' && reply.neverRan === true;
}

function isVote(reply: VoteReply): reply is Vote {
  return reply.kind === 'vote';
}

function isNo(reply: VoteReply): reply is NoVote {
  return reply.kind === 'no';
}

/** Renewals may ask for a little more than the lease, for what is to last for nearly all of it. */
function longestLeaseMs(rejoinAfterMs: number): number {
  return Math.ceil(rejoinAfterMs * 1.05) + 100;
}

/** A renewal lets the holder use as many numbers as a vote. */
function lastAfter(used: number): number {
  return used + 1 + VOTED_NUMBERS;
}

function waitersIn(reply: Prolonged | Unknown | undefined): number {
  return reply === undefined || reply.kind === 'unknown' ? 0 : reply.waiters;
}

function grantOf(token: string, { first, last }: VotedNumbers, votes: readonly Vote[]): Granted {
  const waiters = Math.max(...votes.map((vote) => vote.waiters));
  return { kind: 'granted', token, fence: first, blockEnd: last, waiters };
}
