import { setImmediate as immediate } from 'node:timers/promises';
import { LockStoreError } from '../../../core/lock.errors.js';
import { LinkedList } from '../../../core/runtime/linked-list.js';
import {
  afterSilence,
  AwakeLimit,
  lookEveryMs,
  whenDue,
} from '../../../core/time/after-silence.js';
import type { Clock } from '../../../core/time/clock.js';
import type { RedisKeys } from '../../scripts/redis-keys.js';
import type { RedisScript } from '../../scripts/redis-script.js';
import {
  isFromCluster,
  isFromReplica,
  isOfSeveralSlots,
  isReplyError,
  isUnknownScript,
  lacksRights,
} from '../../scripts/reply-error.js';
import { ClosingServerError, reasonOf } from '../server/reason-of.js';
import type { RedisClient, RedisConnection } from '../server/redis-client.js';
import type { RequiredReplicas } from '../server/required-replicas.js';
import { selectDatabase } from '../server/select-database.js';
import { readServerInfo, type ServerInfo } from '../server/server-info.js';
import { Heartbeat } from '../silence/heartbeat.js';
import { IdleReplacement } from '../silence/idle-replacement.js';
import { saysMoreThan } from '../silence/silence-error.js';
import { assertInTime, LateAnswers, SlowLinkError } from '../silence/slow-link.js';
import { batchesOf, mustBeAlone, refusalIn, sendBatch } from './batch.js';
import { OpenCommand } from './open-command.js';
import { OwnConnection } from './own-connection.js';
import {
  type CommandFailure,
  type CommandOutcome,
  notOpen,
  type RedisCommand,
} from './redis-command.js';
import { ReplicaAcknowledgements } from './replica-acknowledgements.js';
import { atTurnEnd } from './turn-end.js';
import { longestWaitMs } from './wait-command.js';

export interface CommandConnectionOptions {
  readonly name: string;
  readonly clock: Clock;
  readonly timeLimitMs: number;
  /** The service's lease, from which the time limit follows. */
  readonly leaseMs: number;
  /** How often the connection is checked. */
  readonly pingEveryMs: number;
  /** Checks the connection, with commands that every server answers at once. */
  readonly check: (redis: RedisConnection) => Promise<unknown>;
  /** Knows whether commands for different keys may share one. */
  readonly keys: RedisKeys;
  /** Loaded into every server before any command. */
  readonly scripts: readonly RedisScript[];
  /** Whether the server is to be a node of a Redis Cluster. */
  readonly inCluster: boolean;
  /** Which replicas must have a lease before it counts. @default the master alone */
  readonly replicas?: RequiredReplicas | undefined;
}

export interface CommandConnectionListener {
  /** A new connection is ready, and the commands that waited for it have been sent. */
  admitted(server: ServerInfo): void;
  failed(error: unknown): void;
  /** The connection broke, or the server has fallen silent. Until `back`, reported again only with another reason. */
  lost(cause: LockStoreError): void;
  /** The server answers again. */
  back(): void;
  /** A dead idle connection was replaced, and the replacement has answered a command in time. */
  replaced(cause: LockStoreError): void;
}

/** What was sent as one. */
interface Sending {
  readonly batch: readonly OpenCommand[];
  readonly at: number;
  readonly connection: number;
  readonly whole: boolean;
  /** Whether its keys were of one hash tag. */
  readonly isApart: boolean;
}

/** The most commands in flight. A server that wakes up after a silence finds no more than these. */
const MOST_UNANSWERED = 1_000;

/** The most commands waiting for a connection. Any further command is refused at once. */
const MOST_WAITING = 1_000;

/**
 * The connection for commands. While it is down or silent, nothing is sent: a command waits for it within its own time
 * limit, and is never sent after that. So a Redis that returns is not flooded with outdated commands, and an outage
 * takes no more memory than `MOST_WAITING` commands. A command that was in flight when its connection broke is sent
 * again on the next one. That does no harm, because the scripts are idempotent for each token.
 *
 * A new connection is admitted when its server is known to be a master, has selected our database, and has our scripts.
 * The server may forget them later (SCRIPT FLUSH). It then refuses every command that names its script by the hash,
 * while one that carries its whole script still runs. A forgotten command resent at once could therefore run after
 * later commands for the same lock. So nothing new is sent until every command in flight was answered; then the
 * forgotten ones are resent with their whole scripts, in order. If a later command for the same lock was answered
 * meanwhile, the order cannot be restored, and the forgotten command fails instead.
 *
 *     waiting ──sent──▶ unanswered ──────────▶ answered, or failed
 *        ▲               │      │                     ▲
 *        └─ connection ──┘      └─▶ forgotten ─▶ repeating
 *             breaks                 script not    its turn: sent
 *                                    known         again, whole
 *
 * Forgotten and repeating commands still count as unanswered. In every state, a command fails when its time is over.
 */
export class CommandConnection {
  readonly #options: CommandConnectionOptions;
  #connection: OwnConnection | undefined;
  #listener: CommandConnectionListener | undefined;
  /** Whether a server is connected and may be used. */
  #isAdmitted = false;
  /** Whether a command was not answered in time and no answer has arrived since. */
  #isSilent = false;
  /** Whether the loss of the server was reported. */
  #isLost = false;
  #connections = 0;
  #sendings = 0;
  #lastError: unknown;
  /** Commands not sent yet, and commands sent but not answered. Both lists keep the order of the calls. */
  #waiting = new LinkedList<OpenCommand>();
  readonly #unanswered = new LinkedList<OpenCommand>();
  /** The unanswered commands that must be sent again, and whether with the whole script, which the server lacks. */
  readonly #forgotten = new Map<OpenCommand, boolean>();
  /** Forgotten commands that were resent and are in flight again. */
  readonly #repeating = new Set<OpenCommand>();
  /** Whether commands of this turn of the event loop wait for others with which they are sent. */
  #isGathering = false;
  #onIdle: (() => void)[] = [];
  #cancelLimit: (() => void) | undefined;
  readonly #heartbeat: Heartbeat;
  readonly #onLose = new Set<() => void>();
  readonly #replacement: IdleReplacement;
  readonly #acknowledgements: ReplicaAcknowledgements | undefined;
  readonly #late: LateAnswers;

  constructor(options: CommandConnectionOptions) {
    const { replicas, timeLimitMs, clock, pingEveryMs: everyMs } = options;
    this.#options = options;
    this.#late = new LateAnswers(options);
    this.#replacement = new IdleReplacement(clock);
    this.#heartbeat = new Heartbeat(
      { clock, everyMs, timeLimitMs, isHeldUp: () => this.#acknowledgements?.isAsking === true },
      () => void this.#check(),
      (silentMs) => this.#replace(silentMs),
    );
    if (replicas === undefined) return;
    const limitMs = longestWaitMs(replicas, timeLimitMs);
    const send = (command: RedisCommand, end: OpenCommand['end']): OpenCommand =>
      // It concerns commands already sent, so it need not queue behind waiting ones.
      this.#enter(new OpenCommand(command, this.#newLimit(), end), this.#ready);
    this.#acknowledgements = new ReplicaAcknowledgements(replicas, limitMs, send);
  }

  open(client: RedisClient, listener: CommandConnectionListener): void {
    this.#listener = listener;
    const connection = new OwnConnection(client, this.#options, {
      ready: () => void this.#admit(connection, ++this.#connections).catch(() => {}), // a listener's error, not ours
      closed: () => {
        this.#connections++;
        if (!this.#isAdmitted && this.#lastError === undefined)
          this.#failed(new ClosingServerError());
        this.#lose();
      },
      failed: (error) => this.#failed(error),
    });
    this.#connection = connection;
  }

  get isReady(): boolean {
    return this.#isAdmitted;
  }

  get isAnswering(): boolean {
    return this.#isAdmitted && !this.#isLost;
  }

  /** The number of connections so far, which identifies the current one. */
  get connections(): number {
    return this.#connections;
  }

  /**
   * @param read converts the outcome into the result; neither function ever throws or rejects
   * @param dueAt when the command's time is over, if part of it was used elsewhere. @default after the time limit
   */
  run<T>(command: RedisCommand, read: (outcome: CommandOutcome) => T, dueAt?: number): Promise<T> {
    const mustNotBreak = command.isRepeatable === false && this.#isAdmitted;
    if (!mustNotBreak || !this.#heartbeat.isIdle) return this.#run(command, read, dueAt);
    // Such a command could not be resent on the next connection if this one were dead.
    this.#heartbeat.sent();
    return this.#checkedOrLost().then(() => this.#run(command, read, dueAt));
  }

  #run<T>(
    command: RedisCommand,
    read: (outcome: CommandOutcome) => T,
    dueAt: number | undefined,
  ): Promise<T> {
    return new Promise((resolve) => {
      const end = (outcome: CommandOutcome): void => resolve(read(outcome));
      if (this.#connection === undefined) {
        return end(notOpen(command));
      }
      if ((!this.#isAdmitted || this.#isSilent) && this.#waiting.size >= MOST_WAITING) {
        const reason = `Redis cannot be reached, and ${MOST_WAITING} commands wait for it already`;
        return end(this.#refused(command, `${reason}${this.#because}`));
      }
      const open = new OpenCommand(command, this.#newLimit(), end);
      if (dueAt !== undefined) this.#watchOwnLimit(open, dueAt);
      this.#enter(open, this.#waiting.size === 0 ? this.#usable : undefined);
    });
  }

  #newLimit(): AwakeLimit {
    const { clock, timeLimitMs } = this.#options;
    return new AwakeLimit(timeLimitMs, clock.now());
  }

  /** @param connection sends at once on this connection; undefined: the command waits */
  #enter(open: OpenCommand, connection: OwnConnection | undefined): OpenCommand {
    const { part } = open;
    // With nothing in flight, a release leaves at once: the process may end, or compute for long, before the turn ends.
    const leavesNow = part === undefined || (!part.isAcquire && this.#unanswered.size === 0);
    if (connection !== undefined && leavesNow) {
      this.#transmit([this.#sent(open)], connection, false);
    } else {
      this.#waiting.add(open);
      if (connection !== undefined) this.#sendAtTurnEnd();
    }
    this.#watchLimit();
    return open;
  }

  /** Called when the connection is known to lead to the right server. If it breaks, a new one is made without delay. */
  proved(): void {
    this.#connection?.proved();
  }

  /** Makes a new connection, on which the commands in flight are resent. */
  reconnect(because: Error): void {
    this.#lose(because, givenUp(because));
    this.#connection?.reconnect();
  }

  /** Waits until every command has ended, including follow-up commands. */
  async idle(): Promise<void> {
    while (this.#waiting.size + this.#unanswered.size > 0) {
      await new Promise<void>((resolve) => this.#onIdle.push(resolve));
      await immediate();
    }
  }

  /** Closes the connection; unfinished commands fail. */
  close(reason = 'the locks are being closed'): void {
    this.#connections++;
    this.#isAdmitted = false;
    this.#isSilent = false;
    this.#isLost = false;
    this.#connection?.close();
    this.#connection = undefined;
    for (const open of [...this.#unanswered, ...this.#waiting]) {
      const neverRan = this.#waiting.has(open) && !open.mayHaveRun;
      this.#end(open, { ...this.#failure(open.command, undefined, reason), neverRan });
    }
    this.#cancelLimit?.();
    this.#cancelLimit = undefined;
    this.#heartbeat.stop();
    this.#replacement.ends();
    for (const tell of this.#onLose) tell();
  }

  // ---- whether it is alive ----------------------------------------------------------------------------------

  /**
   * Never rejects. An answer does not prove that commands are executed, because the server may be paused for writes.
   */
  async #check(): Promise<void> {
    const own = this.#connection;
    if (own === undefined || !this.#isAdmitted) return;
    const connection = this.#connections;
    own.sends();
    await this.#options.check(own.redis).then(
      () => this.#heardFrom(connection),
      () => {}, // it broke
    );
  }

  #checkedOrLost(): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        this.#onLose.delete(end);
        resolve();
      };
      this.#onLose.add(end);
      void this.#check().then(end);
    });
  }

  #heardFrom(connection: number): void {
    if (connection === this.#connections && this.#isAdmitted) this.#heartbeat.heard();
  }

  /** Replaces a dead idle connection, which is no outage unless the next one takes too long. */
  #replace(silentMs: number): void {
    const tooLate = (): void => this.#tellLost(this.#breach);
    const because = this.#replacement.begins(silentMs, this.#options.timeLimitMs, tooLate);
    this.#lose(because, givenUp(because));
    this.#connection?.abandon();
  }

  // ---- a new connection -------------------------------------------------------------------------------------

  async #admit(own: OwnConnection, connection: number): Promise<void> {
    const { redis } = own;
    const askedAt = this.#options.clock.now();
    let server: ServerInfo;
    let tookMs: number;
    try {
      own.sends();
      const isPrepared = Promise.all([
        selectDatabase(redis, this.#options.inCluster),
        ...this.#options.scripts.map(({ lua }) =>
          redis.script('LOAD', lua).catch(unlessForbidden(undefined)),
        ),
      ]);
      isPrepared.catch(() => {}); // awaited below, because what the server says about itself explains more
      const info = await redis.info('default').catch(unlessForbidden(''));
      if (connection !== this.#connections) return;
      server = readServerInfo(info, this.#options.inCluster);
      await isPrepared;
      tookMs = this.#options.clock.now() - askedAt;
      if (tookMs > this.#options.timeLimitMs) await this.#assertInTime(own, tookMs);
      if (connection !== this.#connections) return;
    } catch (error) {
      if (connection !== this.#connections) return;
      this.#failed(error);
      own.reconnect();
      return;
    }
    this.#isAdmitted = true;
    this.#lastError = undefined;
    // Even a server paused for writes gets here. It counts as back when it has answered a command.
    this.#isSilent = false;
    this.#replacement.admitted(tookMs);
    this.#late.clear();
    this.#heartbeat.start(tookMs);
    this.#sendWaiting();
    this.#listener?.admitted(server);
  }

  /** Refuses a Redis too distant for the lease, which would answer every command too late. */
  #assertInTime(own: OwnConnection, tookMs: number): Promise<void> {
    const ask = (): Promise<unknown> => {
      own.sends();
      return own.redis.ping().catch(unlessForbidden(undefined));
    };
    return assertInTime(tookMs, ask, this.#options);
  }

  #failed(error: unknown): void {
    const isNews = saysMoreThan(error, this.#lastError, this.#isSilent);
    this.#lastError = error;
    if (this.#replacement.isAwaited) this.#tellLost(this.#breach);
    else if (this.#isLost && isNews) this.#tellReason(this.#breach);
    this.#listener?.failed(error);
  }

  /** Called when the connection is lost or useless. Its unanswered commands go to the front of the waiting ones. */
  #lose(error?: unknown, how = 'the connection to Redis broke'): void {
    if (!this.#isAdmitted) return;
    this.#isAdmitted = false;
    this.#heartbeat.stop();
    if (error !== undefined) this.#lastError = error;
    if (!this.#replacement.isAwaited) this.#tellLost(this.#breach);
    for (const open of this.#unanswered) open.mayHaveRun = true;
    this.#forgotten.clear();
    this.#repeating.clear();
    const unanswered = [...this.#unanswered];
    const waiting = new LinkedList<OpenCommand>();
    for (const from of [this.#unanswered, this.#waiting]) {
      for (let open = from.first; open !== undefined; open = from.first) {
        from.delete(open);
        waiting.add(open);
      }
    }
    this.#waiting = waiting;
    this.#acknowledgements?.lost();
    for (const tell of this.#onLose) tell();
    for (const open of unanswered) {
      if (open.command.isRepeatable !== false) continue;
      this.#end(open, this.#failure(open.command, error, how));
    }
  }

  // ---- sending ----------------------------------------------------------------------------------------------

  /** The connection, if its server answers and knows the scripts. */
  get #ready(): OwnConnection | undefined {
    const isReady =
      this.#isAdmitted && !this.#isSilent && this.#forgotten.size + this.#repeating.size === 0;
    return isReady ? this.#connection : undefined;
  }

  /** The connection on which a command can be sent right now. */
  get #usable(): OwnConnection | undefined {
    return this.#unanswered.size < MOST_UNANSWERED ? this.#ready : undefined;
  }

  /** Sends the waiting commands at the end of this turn of the event loop, with all that come until then. */
  #sendAtTurnEnd(): void {
    if (this.#isGathering) return;
    this.#isGathering = true;
    atTurnEnd(() => {
      this.#isGathering = false;
      this.#sendWaiting();
    });
  }

  #sendWaiting(): void {
    const connection = this.#usable;
    if (connection === undefined) return;
    const sent: OpenCommand[] = [];
    for (let open = this.#waiting.first; open !== undefined; open = this.#waiting.first) {
      if (this.#usable === undefined) break;
      this.#waiting.delete(open);
      sent.push(this.#sent(open));
    }
    this.#transmitAll(sent, connection, false);
  }

  #sent(open: OpenCommand): OpenCommand {
    open.sending = ++this.#sendings;
    this.#unanswered.add(open);
    return open;
  }

  #transmitAll(commands: readonly OpenCommand[], own: OwnConnection, whole: boolean): void {
    if (commands.length === 1) return this.#transmit(commands, own, whole);
    const isApart = this.#options.keys.areApart;
    const batches = isApart ? commands.map((open) => [open]) : batchesOf(commands);
    for (const batch of batches) this.#transmit(batch, own, whole);
  }

  /**
   * @param batch commands sent as one
   * @param whole whether to send the whole script, which the server does not know
   */
  #transmit(batch: readonly OpenCommand[], own: OwnConnection, whole: boolean): void {
    const sending: Sending = {
      at: this.#options.clock.now(),
      connection: this.#connections,
      batch,
      whole,
      isApart: this.#options.keys.areApart,
    };
    for (const open of batch) open.sentIn = sending;
    const { connection } = sending;
    this.#heartbeat.sent();
    own.sends();
    own.joinWrites();
    const [first] = batch as [OpenCommand];
    const answer =
      batch.length === 1
        ? first.command.send(own.redis, whole)
        : sendBatch(own.redis, batch, whole);
    answer.then(
      (reply) => {
        this.#heardFrom(connection);
        if (batch.length === 1) return this.#replied(sending, 0, reply);
        const replies: readonly unknown[] = Array.isArray(reply) ? reply : [];
        for (let i = 0; i < batch.length; i++) this.#replied(sending, i, replies[i]);
      },
      (error: unknown) => {
        if (isReplyError(error)) this.#heardFrom(connection);
        for (let i = 0; i < batch.length; i++) this.#rejected(sending, i, error);
      },
    );
  }

  #isAwaited(open: OpenCommand, sending: Sending): boolean {
    return open.sentIn === sending && this.#unanswered.has(open);
  }

  #replied(sending: Sending, i: number, reply: unknown): void {
    const open = sending.batch[i] as OpenCommand;
    if (!this.#isAwaited(open, sending)) return this.#heardLate(sending.connection, sending.at);
    if (open.command.isUnfinished?.(reply) === true) {
      open.isAlone = true;
      return this.#again(open, false);
    }
    this.#tellReplaced(sending.at);
    const refusal = sending.batch.length === 1 ? undefined : refusalIn(reply);
    if (refusal === undefined) this.#answered(open, reply);
    else this.#notAnswered(open, refusal, sending.batch);
  }

  #rejected(sending: Sending, i: number, error: unknown): void {
    const { batch, connection, whole, isApart } = sending;
    const open = batch[i] as OpenCommand;
    if (!this.#isAwaited(open, sending)) return this.#heard(connection);
    if (!whole && isUnknownScript(error)) return this.#again(open, true);
    if (isOfSeveralSlots(error)) this.#options.keys.setApart();
    const mayBeAllowed =
      batch.length > 1 ? mustBeAlone(error) : isOfSeveralSlots(error) && !isApart;
    if (!mayBeAllowed) return this.#notAnswered(open, error, batch);
    open.isAlone = true;
    this.#again(open, false);
  }

  // ---- answers ----------------------------------------------------------------------------------------------

  /** Called for an answer that came too late for its command, but shows that the server is alive. */
  #heard(connection: number): void {
    // A rejection due to abandoning the connection is not an answer.
    if (connection !== this.#connections || !this.#isAdmitted) return;
    this.#answers();
    if (this.#waiting.size > 0) this.#sendAtTurnEnd();
  }

  #heardLate(connection: number, sentAt: number): void {
    const isCurrent = connection === this.#connections && this.#isAdmitted;
    const tooSlow = isCurrent ? this.#late.came(sentAt) : undefined;
    if (tooSlow === undefined) this.#heard(connection);
    else this.reconnect(tooSlow); // used again when it is faster
  }

  /** Called when the server is known to be alive. */
  #answers(): void {
    this.#isSilent = false;
    if (!this.#isLost) return;
    this.#isLost = false;
    this.#listener?.back();
  }

  #tellReplaced(sentAt: number): void {
    const cause = this.#replacement.answered(sentAt);
    if (cause !== undefined && !this.#isLost) this.#listener?.replaced(cause);
  }

  #tellLost(reason: string): void {
    this.#replacement.ends();
    if (this.#isLost) return;
    this.#isLost = true;
    this.#tellReason(reason);
  }

  #tellReason(reason: string): void {
    this.#listener?.lost(new LockStoreError(reason, undefined, { cause: this.#lastError }));
  }

  #answered(open: OpenCommand, reply: unknown): void {
    this.#late.clear();
    this.#answers();
    this.#refuseOvertaken(open);
    this.#end(open, { kind: 'answered', reply, mayHaveRunBefore: open.mayHaveRun });
  }

  #notAnswered(open: OpenCommand, error: unknown, batch: readonly OpenCommand[]): void {
    if (isReplyError(error) && !isFromReplica(error)) {
      this.#answers();
      this.#refuseOvertaken(open);
      const failure = this.#failure(open.command, error, error.message);
      return this.#end(open, { ...failure, neverRan: isFromCluster(error) && !open.mayHaveRun });
    }
    const hadNotRun = batch.filter(({ mayHaveRun }) => !mayHaveRun);
    this.#lose(error);
    if (isFromReplica(error)) for (const refused of hadNotRun) refused.mayHaveRun = false;
    this.#connection?.reconnect();
  }

  // ---- time limits ------------------------------------------------------------------------------------------

  /** One timer for all commands. Time in which our event loop was blocked does not count. */
  #watchLimit(): void {
    if (this.#cancelLimit !== undefined) return;
    const dueAt = this.#nextDueAt;
    if (dueAt === Infinity) return;
    const { clock, timeLimitMs } = this.#options;
    const lookAt = Math.min(dueAt, clock.now() + lookEveryMs(timeLimitMs));
    this.#cancelLimit = whenDue(clock, lookAt, (stoodStillMs) => {
      this.#cancelLimit = undefined;
      this.#expireAll(clock.now(), stoodStillMs);
      this.#watchLimit();
    });
  }

  /**
   * Watches a command with less than the usual time, which may end before older ones without meaning a silent server.
   */
  #watchOwnLimit(open: OpenCommand, dueAt: number): void {
    const { clock } = this.#options;
    const cancel = afterSilence(clock, Math.max(0, dueAt - clock.now()), () => {
      const failure = this.#failure(open.command, this.#lastError, 'there was no time left');
      this.#end(open, { ...failure, neverRan: open.sending === 0 && !open.mayHaveRun });
    });
    open.onEnd = cancel;
  }

  get #nextDueAt(): number {
    let nextDueAt = Infinity;
    for (const list of [this.#unanswered, this.#waiting])
      for (const { limit, onEnd } of list)
        if (onEnd === undefined) nextDueAt = Math.min(nextDueAt, limit.endsAt);
    return nextDueAt;
  }

  #expireAll(now: number, stoodStillMs: number): void {
    for (const open of [...this.#unanswered, ...this.#waiting]) {
      if (open.onEnd !== undefined) continue;
      if (stoodStillMs > 0) open.limit.stoodStill(stoodStillMs, now);
      if (open.limit.endsAt <= now) this.#expire(open);
    }
  }

  #expire(open: OpenCommand): void {
    const limit = `${this.#options.timeLimitMs} ms`;
    if (this.#unanswered.has(open)) {
      this.#isSilent = true;
      const reason = `Redis did not answer within ${limit}`;
      this.#tellLost(reason);
      return this.#end(open, this.#failure(open.command, undefined, reason));
    }
    // A command has waited for its whole time: reported before the failures that follow from it.
    if (this.#replacement.isAwaited) this.#tellLost(this.#breach);
    const reason = this.#isAdmitted
      ? `Redis did not answer earlier commands within ${limit}`
      : `there was no connection to Redis for ${limit}${this.#because}`;
    const failure = this.#failure(open.command, this.#lastError, reason);
    this.#end(open, { ...failure, neverRan: !open.mayHaveRun });
  }

  #end(open: OpenCommand, outcome: CommandOutcome): void {
    this.#unanswered.delete(open);
    this.#waiting.delete(open);
    if (this.#forgotten.delete(open)) {
      // It was sent, and the server did answer.
      const connection = this.#connections;
      void Promise.resolve().then(() => this.#heard(connection));
    }
    this.#repeating.delete(open);
    open.onEnd?.();
    if (this.#acknowledgements?.holdBack(open, outcome) !== true) open.end(outcome);
    this.#repeatForgotten();
    if (this.#waiting.size > 0) this.#sendAtTurnEnd();
    if (this.#onIdle.length === 0 || this.#waiting.size + this.#unanswered.size > 0) return;
    for (const tell of this.#onIdle.splice(0)) tell();
  }

  #refused(command: RedisCommand, reason: string): CommandFailure {
    return { ...this.#failure(command, this.#lastError, reason), neverRan: true };
  }

  #failure({ action }: RedisCommand, cause: unknown, reason: string): CommandFailure {
    const options = cause === undefined ? undefined : { cause };
    const error = new LockStoreError(`Cannot ${action}: ${reason}`, undefined, options);
    return { kind: 'failed', cause: error, neverRan: false };
  }

  get #breach(): string {
    if (this.#lastError instanceof SlowLinkError) return this.#lastError.message;
    return `the connection to Redis broke${this.#because}`;
  }

  get #because(): string {
    return this.#lastError === undefined ? '' : `: ${reasonOf(this.#lastError)}`;
  }

  // ---- a server that has forgotten our scripts --------------------------------------------------------------

  #again(open: OpenCommand, whole: boolean): void {
    this.#repeating.delete(open);
    this.#forgotten.set(open, whole);
    this.#repeatForgotten();
  }

  /** When every command in flight was answered, resends the forgotten ones in their order. */
  #repeatForgotten(): void {
    const own = this.#connection;
    if (own === undefined || this.#forgotten.size === 0) return;
    if (this.#forgotten.size < this.#unanswered.size) return;
    const bySending = [...this.#forgotten].sort(([a], [b]) => a.sending - b.sending);
    this.#forgotten.clear();
    for (const [open] of bySending) this.#repeating.add(open);
    for (let from = 0, to = 0; from < bySending.length; from = to) {
      const whole = bySending[from]?.[1] === true;
      while (to < bySending.length && bySending[to]?.[1] === whole) to++;
      this.#transmitAll(
        bySending.slice(from, to).map(([open]) => open),
        own,
        whole,
      );
    }
  }

  /** Fails forgotten commands for whose lock a later command was answered first. */
  #refuseOvertaken(by: OpenCommand): void {
    for (const open of [...this.#forgotten.keys()]) {
      if (!open.isBefore(by) || !open.concerns(by)) continue;
      const reason = 'Redis had forgotten its script, and a later command was quicker';
      const failure = this.#failure(open.command, undefined, reason);
      this.#end(open, { ...failure, neverRan: !open.mayHaveRun });
    }
  }
}

function givenUp(because: unknown): string {
  return `the connection to Redis was given up: ${reasonOf(because)}`;
}

/** Ignores a missing right here, because the probe finds out whether it is needed. */
function unlessForbidden<T>(instead: T): (error: unknown) => T {
  return (error) => {
    if (lacksRights(error)) return instead;
    throw error;
  };
}
