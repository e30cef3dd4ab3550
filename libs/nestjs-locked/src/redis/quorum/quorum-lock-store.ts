import { LockConfigError, LockStoreError } from '../../core/lock.errors.js';
import type { KeyTerms } from '../../core/lock-mode.js';
import { acceptanceLeaseMs, safetyIntervalMs } from '../../core/store/lease-timing.js';
import { newProcessId, termsOf } from '../../core/store/lease-token.js';
import type {
  AcquireCommand,
  AcquireReply,
  AdoptCommand,
  AdoptReply,
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
import { KeepTime } from '../keep-time.js';
import { LockScripts } from '../scripts/lock-scripts.js';
import { RedisKeys } from '../scripts/redis-keys.js';
import { FENCE_KEEP_MS, START_MS } from '../store-defaults.js';
import { QuorumAdoptions } from './quorum-adoptions.js';
import { QuorumInspector } from './quorum-inspector.js';
import { QuorumNodes } from './quorum-nodes.js';
import { QuorumRenewals } from './quorum-renewals.js';
import type { GivenBack } from './quorum-replies.js';
import { QuorumRequests } from './quorum-requests.js';
import { QuorumRounds, type SplitReply } from './quorum-rounds.js';
import { QuorumScripts } from './quorum-scripts.js';
import { type ToGiveBack, VotesGivenBack } from './votes-given-back.js';
import { WaitingPlaces } from './waiting-places.js';

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

/** The longest time that a command may take before its node counts as silent. */
const LONGEST_COMMAND_MS = 5_000;

/** The longest time that the answers of a round are awaited: a node that is silent must not keep the others waiting. */
const LONGEST_ROUND_MS = 500;

/** How often the waiter that may take a key next looks whether it has come free, at least. */
const TURN_PAUSE_MS = 25;

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
  readonly #nodes: QuorumNodes;
  readonly #rejoinAfterMs: number;
  readonly #places = new WaitingPlaces();
  readonly #requests: QuorumRequests;
  readonly #votes: VotesGivenBack;
  readonly #rounds: QuorumRounds;
  readonly #renewals: QuorumRenewals;
  readonly #adoptions: QuorumAdoptions;
  #isRepeated = false;
  #latestScore = 0;

  constructor(options: QuorumLockStoreOptions) {
    const { clients, clock, keyPrefix, leaseMs, fenceKeepMs = FENCE_KEEP_MS } = options;
    const { rejoinAfterMs = leaseMs, random = Math.random } = options;
    this.#options = options;
    this.#rejoinAfterMs = rejoinAfterMs;
    const keys = new RedisKeys(keyPrefix, true);
    const { inboxPrefix } = keys;
    const youngMs = rejoinAfterMs === 0 ? 0 : longestLeaseMs(rejoinAfterMs);
    const scripts = new QuorumScripts({ inboxPrefix, fenceKeepMs, youngMs });
    const acceptMs = acceptanceLeaseMs(leaseMs);
    const ofOne = new LockScripts({ inCluster: false, inboxPrefix, acceptMs, fenceKeepMs });
    const { inspect, revoke, askHolder, answerQuestion, probe } = ofOne;
    this.commandTimeoutMs = Math.min(LONGEST_COMMAND_MS, Math.ceil(leaseMs / 3));
    this.#nodes = new QuorumNodes(
      clients,
      {
        clock,
        keys,
        processId: this.processId,
        scripts: [...scripts.all, inspect, revoke, askHolder, answerQuestion, probe],
        probe,
        timeLimitMs: this.commandTimeoutMs,
        leaseMs,
        pingEveryMs: safetyIntervalMs(leaseMs),
      },
      ofOne,
      youngMs,
    );
    const roundMs = Math.min(LONGEST_ROUND_MS, this.commandTimeoutMs);
    const nodes = this.#nodes;
    this.#requests = new QuorumRequests({ nodes, scripts, keys, clock, roundMs, rejoinAfterMs });
    this.#votes = new VotesGivenBack(this.#requests, Math.max(leaseMs, rejoinAfterMs));
    this.#rounds = new QuorumRounds(this.#requests, this.#votes, this.#places, random);
    this.#renewals = new QuorumRenewals(this.#requests, this.#votes);
    this.#adoptions = new QuorumAdoptions(this.#requests, this.#votes, this.#rounds);
    this.inspector = new QuorumInspector(nodes, clock, this.commandTimeoutMs);
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
          nodeReturned: (node) => this.#votes.settle(node),
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
      void this.#votes.from(node, { key, token: '', place, tells: true });
  }

  // ---- rounds -----------------------------------------------------------------------------------------------

  acquire({ key, token, leaseMs, nowait, position }: AcquireCommand): Promise<AcquireReply> {
    const refusal = this.#refusalOf(key, token, leaseMs);
    if (refusal !== undefined) return Promise.resolve(refusal);
    if (nowait) return this.#rounds.tryRepeatedly(key, token, leaseMs);
    const waiting = this.#places.take(token, position ?? this.#newScore());
    return this.#rounds.holdFor(waiting, { key, token, leaseMs }).then((reply) => {
      if (isUntried(reply)) this.#places.leave(waiting); // nobody takes it back
      return reply;
    });
  }

  async recheck(command: RecheckCommand): Promise<RecheckReply> {
    const { key, token, newToken, leaseMs, position } = command;
    const waiting = this.#places.take(newToken, position, token);
    const reply = await this.#rounds.holdFor(waiting, { key, token: newToken, leaseMs });
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

  // ---- keeping ----------------------------------------------------------------------------------------------

  /** A lease that would be longer than a node stays without a vote after a restart is not prolonged at all. */
  renew(commands: readonly RenewCommand[]): readonly Promise<RenewReply>[] {
    const usual = commands.filter(({ leaseMs }) => !this.#isTooLong(leaseMs));
    const renewed = this.#renewals.renew(usual);
    let i = 0;
    return commands.map(({ key, leaseMs }) => {
      if (!this.#isTooLong(leaseMs)) return renewed[i++] as Promise<RenewReply>;
      const cause = this.refusalOf({ mode: 'exclusive' }, leaseMs);
      const message = `Cannot renew '${key}': ${cause?.message}`;
      const unknown = { kind: 'unknown', neverRan: true } as const;
      return Promise.resolve({ ...unknown, cause: new LockStoreError(message, key, { cause }) });
    });
  }

  async adopt(command: AdoptCommand): Promise<AdoptReply> {
    const { key, newToken, leaseMs } = command;
    const refusal = this.#refusalOf(key, newToken, leaseMs);
    return refusal ?? (await this.#adoptions.adopt(command));
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
    const terms = { key, token: newToken, leaseMs };
    const asked = (await this.#rounds.holdFor(waiting, terms)) as RecheckReply;
    return asked.kind === 'unknown' ? { ...asked, wasReleased: !wasLost } : { ...asked, wasLost };
  }

  async #release(
    what: ToGiveBack,
  ): Promise<{ readonly reply: ReleaseReply; readonly next: readonly string[] }> {
    const { most } = this.#requests;
    const { needed } = this.#nodes;
    const wasOurs = (reply: GivenBack): boolean => reply.wasOurs;
    const wasNot = (reply: GivenBack): boolean => !reply.wasOurs;
    const poll = await this.#votes.fromAll(
      { ...what, tells: true },
      (answers) => answers.count(wasOurs) >= needed || answers.count(wasNot) > most,
    );
    const next = poll.answers().map((reply) => reply.next);
    if (poll.count(wasOurs) >= needed) return { reply: { kind: 'released' }, next };
    if (poll.count(wasNot) > most) return { reply: { kind: 'lost' }, next };
    return { reply: this.#requests.unknown('release', what.key, poll), next };
  }

  /** The last try of a waiter: the one that is in flight, or another one if nobody knows what became of that. */
  async leave({ key, tokens: [token, other], leaseMs }: LeaveCommand): Promise<LeaveReply> {
    const waiting = this.#places.of(other ?? token) ?? this.#places.of(token);
    const before = other === undefined ? undefined : await this.#rounds.underWay(other);
    const isKnown = before !== undefined && before.kind !== 'unknown';
    const reply = isKnown ? before : await this.#rounds.holdFor(waiting, { key, token, leaseMs });
    if (reply.kind === 'granted' || reply.kind === 'unknown') return reply;
    if (waiting !== undefined) this.#places.leave(waiting);
    const place = waiting?.place;
    for (const node of this.#nodes.all)
      void this.#votes.from(node, { key, token, other, used: 'none', place, tells: true });
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
      if (each === undefined) continue;
      this.#rounds.giveUp(each);
      const waiting = this.#places.of(each);
      if (waiting === undefined) continue;
      place = waiting.place;
      this.#places.leave(waiting);
    }
    const keep = new KeepTime(this.#options.clock, keepMs);
    const isKeptFree = keepMs > 0;
    const { needed } = this.#nodes;
    const poll = await this.#votes.fromAll(
      { key, token, other, used: used ?? 'none', keep, isKeptFree, place, tells: true },
      ({ answered }) => answered >= needed,
    );
    return poll.answered >= needed
      ? { kind: 'left' }
      : this.#requests.unknown('take back', key, poll);
  }
}

/** Whether no node has carried anything out. */
function isUntried(reply: SplitReply | ReleaseReply): boolean {
  return reply.kind === 'unknown' && reply.neverRan === true;
}

/** Renewals may ask for a little more than the lease, for what is to last for nearly all of it. */
function longestLeaseMs(rejoinAfterMs: number): number {
  return Math.ceil(rejoinAfterMs * 1.05) + 100;
}
