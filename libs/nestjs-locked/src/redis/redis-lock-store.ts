import { LockConfigError, LockStoreError } from '../core/lock.errors.js';
import { quotedList } from '../core/runtime/quoted.js';
import { acceptanceLeaseMs, safetyIntervalMs } from '../core/store/lease-timing.js';
import { newProcessId } from '../core/store/lease-token.js';
import type {
  AcquireCommand,
  AcquireReply,
  AdoptCommand,
  AdoptReply,
  LeaveCommand,
  LeaveReply,
  LockStore,
  ObservedHour,
  RecheckCommand,
  RecheckReply,
  ReleaseCommand,
  ReleaseReply,
  RenewCommand,
  RenewReply,
  RequeueCommand,
  RequeueReply,
  SharedStalls,
  StoreListener,
  TakeBackCommand,
  TakeBackReply,
  Unknown,
} from '../core/store/lock-store.js';
import { atMost } from '../core/time/at-most.js';
import type { Clock } from '../core/time/clock.js';
import { acquireOneByOne } from './acquire-one-by-one.js';
import { WorkerRenewals } from './backup/worker-renewals.js';
import { ClusterConnections } from './cluster/cluster-connections.js';
import type { LockServers } from './connection/lock-servers.js';
import { RedisConnections } from './connection/redis-connections.js';
import type { RedisClient, RedisConnection } from './connection/server/redis-client.js';
import { isCluster, type RedisCluster } from './connection/server/redis-cluster.js';
import type { RequiredReplicas } from './connection/server/required-replicas.js';
import type { ServerInfo } from './connection/server/server-info.js';
import { mustBeAlone } from './connection/traffic/batch.js';
import type { BatchPart } from './connection/traffic/batch-part.js';
import type { RedisCommand, WhileMoving } from './connection/traffic/redis-command.js';
import { KeepTime } from './keep-time.js';
import { isUnknown, readOutcome, type ReadReply, type ReadUnacknowledged } from './read-outcome.js';
import { RedisLockInspector } from './redis-lock-inspector.js';
import { LockScripts, type LockScriptSet } from './scripts/lock-scripts.js';
import { RedisKeys } from './scripts/redis-keys.js';
import type { RedisScript } from './scripts/redis-script.js';
import { lacksRights } from './scripts/reply-error.js';
import {
  isUnfinished,
  readAcquireReply,
  readAdoptReply,
  readHandoverReply,
  readLeaveReply,
  readProlongReply,
  readReleaseReply,
  readRenewReply,
  readRequeueReply,
  readSharedStalls,
  readTakeBackReply,
  readTogetherReply,
} from './scripts/script-replies.js';
import { shareStallsScript } from './scripts/share-stalls.lua.js';
import { FENCE_KEEP_MS, START_MS } from './store-defaults.js';

/**
 * Which thread renews the leases of held locks.
 *
 * - `main`: the one in which the application runs. If its event loop is blocked for longer than a lease allows, the
 *   locks are lost.
 * - `worker`: in addition, a worker thread with its own connection to Redis renews each lease of which half is over
 *   without a renewal, until the `maxHoldMs` of its hold, and for ten minutes of a blocked event loop at most.
 */
export type RenewFrom = 'main' | 'worker';

export interface RedisLockStoreOptions {
  /** The client from whose options our own connections are made. */
  readonly client: RedisClient | RedisCluster;
  readonly clock: Clock;
  /** Precedes every key and channel, e.g. `lock:`. */
  readonly keyPrefix: string;
  /** The service's lease, from which the time limits and the acceptance lease follow. */
  readonly leaseMs: number;
  /** How long the first `open` waits for Redis. @default 10 seconds */
  readonly startMs?: number;
  /** How long the fence of one lock is kept; one that all locks share does not expire. @default 10 minutes */
  readonly fenceKeepMs?: number;
  /** Which replicas must have a lease before it counts. @default the master alone */
  readonly replicas?: RequiredReplicas | undefined;
  /** Whether a worker thread renews leases while the main thread is blocked. @default 'main': it does not */
  readonly renewFrom?: RenewFrom | undefined;
  /** How locks are kept in Redis. @default our own layout */
  readonly layout?: StoreLayout | undefined;
  /** Called after the store has stopped using the client. */
  readonly closeClient: () => Promise<void>;
}

/** How locks are kept in Redis: their names, what the scripts do to them, and how they are found. */
export interface StoreLayout {
  readonly keys: RedisKeys;
  readonly scripts: LockScriptSet;
  readonly Inspector: typeof RedisLockInspector;
}

/** A script with more keys would block the server for too long. */
const KEYS_PER_SCRIPT = 100;

/**
 * While a key is moving to another node of a cluster, a full release, or a renewal that reserves fencing numbers, is
 * tried for this long at most. Then the release is done without a hand-over, and the renewal without numbers.
 */
const WHOLE_FOR_MS = 1_000;

/**
 * The longest time that a command may take, and so the longest wait of `lock.release()`, which awaits an answer. With a
 * lease of less than fifteen seconds, it is a third of the lease.
 */
const LONGEST_COMMAND_MS = 5_000;

/**
 * Keeps leases in one Redis server, or in a Redis Cluster. Each command is a script; each server has one connection for
 * all commands, and another for the inbox. All connections are our own; of the client, only the options are used.
 */
export class RedisLockStore implements LockStore {
  readonly processId = newProcessId();
  readonly commandTimeoutMs: number;
  readonly inspector: RedisLockInspector;
  readonly backup: WorkerRenewals | undefined;
  readonly #scripts: LockScriptSet;
  readonly #options: RedisLockStoreOptions;
  readonly #keys: RedisKeys;
  protected readonly servers: LockServers;
  /** Whether `open` has been called before. */
  #isRepeated = false;
  /** The policy of each server last reported to the listener. */
  readonly #evictionPolicies = new Map<string, string | undefined>();

  constructor(options: RedisLockStoreOptions) {
    const { client, clock, leaseMs } = options;
    const { keys, scripts, Inspector } = options.layout ?? ownLayout(options);
    this.#options = options;
    this.#keys = keys;
    this.#scripts = scripts;
    this.commandTimeoutMs = Math.min(LONGEST_COMMAND_MS, Math.ceil(leaseMs / 3));
    const { processId } = this;
    const connectionOptions = {
      clock,
      keys,
      processId,
      scripts: scripts.all,
      probe: scripts.probe,
      timeLimitMs: this.commandTimeoutMs,
      leaseMs,
      pingEveryMs: safetyIntervalMs(leaseMs),
      replicas: options.replicas,
    };
    this.servers = isCluster(client)
      ? new ClusterConnections(client, connectionOptions)
      : new RedisConnections(client, connectionOptions);
    this.backup = this.#newBackup();
    this.inspector = new Inspector({
      servers: this.servers,
      clock,
      keys,
      scripts,
      processId,
      connectionPrefix: client.options.keyPrefix ?? '',
    });
  }

  /** @throws LockConfigError if a worker thread cannot renew the leases as they must be renewed here */
  #newBackup(): WorkerRenewals | undefined {
    const { client, clock, leaseMs, renewFrom, replicas } = this.#options;
    if (renewFrom !== 'worker') return undefined;
    if (isCluster(client)) throw notFromWorker('a Redis Cluster');
    if (replicas !== undefined) throw notFromWorker('waitReplicas');
    return new WorkerRenewals({
      client,
      clock,
      keys: this.#keys,
      processId: this.processId,
      script: this.#scripts.prolong,
      portion: KEYS_PER_SCRIPT,
      timeLimitMs: this.commandTimeoutMs,
      pingEveryMs: safetyIntervalMs(leaseMs),
    });
  }

  get address(): string {
    return this.servers.address;
  }

  listensFor(key: string): boolean {
    return this.servers.listensFor(key);
  }

  nodeOf(key: string): string {
    return this.servers.nodeOf(key);
  }

  outagesOf(key: string): readonly string[] {
    return this.servers.outagesOf?.(key) ?? [this.servers.nodeOf(key)];
  }

  /** True with replicas, because nothing asked them about a grant that another process wrote on its own connection. */
  get mustConfirmMessages(): boolean {
    return this.#options.replicas !== undefined;
  }

  /** May be called again after it has failed. */
  async open(listener: StoreListener): Promise<void> {
    const { startMs = START_MS } = this.#options;
    // A short or zero `startMs` must not make later attempts fail.
    const limitMs = this.#isRepeated ? Math.max(startMs, START_MS) : startMs;
    if (!this.#isRepeated) listener.storeAwaited?.(new LockStoreError('it has not answered yet'));
    this.#isRepeated = true;
    // Reports of an attempt that fails later would never be revoked, so they are held back.
    const early: (() => void)[] = [];
    let isOpen = false;
    const whenOpen = (tell: () => void): void => void (isOpen ? tell() : early.push(tell));
    try {
      const servers = await this.servers.open(
        {
          message: (message) => listener.message(message),
          published: (channel) => this.published(channel),
          awaited: (cause) => {
            if (!isOpen) listener.storeAwaited?.(cause);
          },
          subscribed: (node) => listener.reconnected(node),
          inboxBack: (node) => whenOpen(() => listener.inboxBack?.(node)),
          inboxLost: (cause, node) => whenOpen(() => listener.inboxLost(node, cause)),
          inboxFails: (cause, node) => whenOpen(() => listener.inboxFails?.(cause, node)),
          rightsLost: (cause, node) => whenOpen(() => listener.rightsLost?.(cause, node)),
          rightsBack: (node) => whenOpen(() => listener.rightsBack?.(node)),
          replaced: (cause) => whenOpen(() => listener.connectionReplaced?.(cause)),
          lost: (cause, node) => whenOpen(() => listener.storeLost(cause, node)),
          back: (node) => whenOpen(() => listener.storeBack(node)),
          connected: (server, node) => {
            listener.reconnected(node);
            this.#tellEviction(server, node, listener);
            this.inspector.present().catch(() => {}); // possibly to another server; only people read it
          },
        },
        limitMs,
      );
      // Each lock has a fence of its own there, which must be prolonged with its lease.
      if (this.backup !== undefined && this.#keys.areApart)
        throw notFromWorker('something in front of several servers');
      await this.backup?.open(
        {
          lost: (cause) => listener.backupLost?.(cause),
          back: () => listener.backupBack?.(),
        },
        Math.max(limitMs, this.commandTimeoutMs),
      );
      await this.ready?.();
      await this.inspector.enter();
      for (const [node, server] of servers) this.#tellEviction(server, node, listener);
      isOpen = true;
      for (const tell of early) tell();
    } catch (error) {
      await this.inspector.leave();
      this.servers.close();
      await this.backup?.close();
      await this.#options.closeClient();
      throw error;
    }
  }

  /** What a layout still needs before the first lock. @throws LockConfigError · LockStoreError */
  protected ready?(): Promise<void>;

  /** Called when something was published on a channel that the layout watches. */
  protected published(_channel: string): void {}

  #tellEviction({ evictionPolicy }: ServerInfo, node: string, listener: StoreListener): void {
    if (evictionPolicy === this.#evictionPolicies.get(node)) return;
    this.#evictionPolicies.set(node, evictionPolicy);
    if (evictionPolicy !== undefined) listener.mayEvict(evictionPolicy);
  }

  /** Waits for the commands in flight, because leases that they acquire must be released. */
  async close(limitMs = this.commandTimeoutMs): Promise<void> {
    const { clock } = this.#options;
    const inGoodOrder = async (): Promise<void> => {
      await this.servers.idle();
      await this.inspector.leave();
    };
    await atMost(clock, limitMs, inGoodOrder()); // afterwards, unanswered commands are abandoned
    this.servers.close();
    await this.inspector.leave();
    await this.backup?.close();
    await this.#options.closeClient();
  }

  acquire({ key, token, leaseMs, nowait, position }: AcquireCommand): Promise<AcquireReply> {
    const args: (string | number)[] = [token, leaseMs];
    if (nowait) args.push(1);
    else if (position !== undefined) args.push(0, position);
    return this.#run(this.#scripts.acquire, key, args, (reply) => readAcquireReply(reply, token));
  }

  recheck(command: RecheckCommand): Promise<RecheckReply> {
    const { key, token, newToken, leaseMs, position, silent } = command;
    const args = [token, newToken, leaseMs, position];
    if (silent !== undefined) args.push(silent);
    return this.#run(this.#scripts.recheck, key, args, readRequeueReply, {
      tokens: [token, newToken],
    });
  }

  acquireTogether(commands: readonly AcquireCommand[]): Promise<readonly AcquireReply[]> {
    const { slotOf } = this.servers;
    const isOneSlot =
      slotOf === undefined || new Set(commands.map(({ key }) => slotOf(key))).size === 1;
    return isOneSlot ? this.#acquireAtOnce(commands) : acquireOneByOne(this, commands);
  }

  async #acquireAtOnce(commands: readonly AcquireCommand[]): Promise<readonly AcquireReply[]> {
    const tokens = commands.map(({ token }) => token);
    const leaseMs = Math.max(...commands.map((command) => command.leaseMs));
    const keys = commands.map(({ key }) => key);
    const others = keys.length > 3 ? ` and ${keys.length - 3} more` : '';
    const replies = await this.#send(
      this.#scripts.acquireTogether,
      keys,
      [leaseMs, ...tokens],
      `acquire ${quotedList(keys.slice(0, 3))}${others}`,
      (reply) => readTogetherReply(reply, tokens),
      { tokens },
    );
    return isUnknown(replies) ? commands.map(() => replies) : replies;
  }

  async adopt({ key, token, newToken, leaseMs, used }: AdoptCommand): Promise<AdoptReply> {
    const { adopt } = this.#scripts;
    if (adopt === undefined) return { kind: 'lost' }; // no lock of this layout is left to anybody
    return this.#run(adopt, key, [token, newToken, leaseMs, used], readAdoptReply, {
      tokens: [token, newToken],
    });
  }

  release({ key, token, used, keepMs = 0 }: ReleaseCommand): Promise<ReleaseReply> {
    const keep = new KeepTime(this.#options.clock, keepMs);
    const args = (): Arguments => {
      const { leftMs } = keep;
      if (leftMs > 0) return [token, used, '', 0, leftMs];
      // A fence of all keys takes nothing back.
      return used > 0 && this.#keys.areApart ? [token, used] : [token];
    };
    const shortArgs = (): Arguments => [token, keep.leftMs];
    const { shortRelease } = this.#scripts;
    return this.#run(
      this.#scripts.release,
      key,
      args,
      (reply, mayHaveRunBefore) => {
        const released = readReleaseReply(reply);
        // The answer "not yours" may only mean that the first of two runs succeeded.
        return released.kind === 'lost' && mayHaveRunBefore ? { kind: 'released' } : released;
      },
      { whileMoving: this.#whileMoving(this.#wholeForMs, shortRelease, key, shortArgs) },
    );
  }

  requeue(command: RequeueCommand): Promise<RequeueReply> {
    const { key, token, used, newToken, leaseMs, waitedMs = 0 } = command;
    const args = [token, used, newToken, leaseMs];
    if (waitedMs > 0) args.push(0, Math.floor(waitedMs));
    const readReply = (reply: unknown, mayHaveRunBefore: boolean) => {
      const asked = readHandoverReply(reply);
      return mayHaveRunBefore ? { ...asked, wasLost: false } : asked;
    };
    return this.#run(this.#scripts.release, key, args, readReply, {
      readUnacknowledged: ({ reply, mayHaveRunBefore }, unknown) => {
        const { wasLost } = readReply(reply, mayHaveRunBefore);
        return { ...unknown, wasReleased: wasLost !== true };
      },
    });
  }

  leave({ key, tokens, leaseMs }: LeaveCommand): Promise<LeaveReply> {
    const [token, other = ''] = tokens;
    const args = [token, other, leaseMs];
    return this.#run(this.#scripts.leave, key, args, readLeaveReply, { tokens: known(tokens) });
  }

  takeBack(commands: readonly TakeBackCommand[]): readonly Promise<TakeBackReply>[] {
    const { clock } = this.#options;
    return this.#inPortions(
      commands.map((command) => ({ ...command, keep: new KeepTime(clock, command.keepMs) })),
      (portion) => this.#takeBackTogether(portion),
      (command) => this.#takeBackAlone(command),
    );
  }

  async #takeBackAlone(command: TimedTakeBack): Promise<TakeBackReply> {
    const { key, tokens, used, keep } = command;
    if (used === undefined) return first(await this.#takeBackTogether([command]));
    // A release has a short form for a key whose slot is moving.
    const reply = await this.release({ key, token: tokens[0], used, keepMs: keep.leftMs });
    if (reply.kind === 'unknown') return reply;
    return keep.leftMs > 0 ? first(await this.#takeBackTogether([command])) : { kind: 'left' };
  }

  async #takeBackTogether(
    commands: readonly TimedTakeBack[],
  ): Promise<readonly TakeBackReply[] | Unknown> {
    const keys = commands.map(({ key }) => key);
    const args = (): Arguments =>
      commands.flatMap(({ tokens: [token, other = ''], used = 0, keep }) => [
        token,
        other,
        used,
        keep.leftMs,
      ]);
    const what = keys.length === 1 ? `'${keys[0]}'` : `${keys.length} keys`;
    const action = `take back what was left for ${what}`;
    const read = (reply: unknown): readonly TakeBackReply[] =>
      readTakeBackReply(reply, keys.length).map((error, i) => leftOr(error, keys[i]));
    return this.#send(this.#scripts.takeBack, keys, args, action, read, {
      tokens: commands.flatMap(({ tokens }) => known(tokens)),
    });
  }

  renew(commands: readonly RenewCommand[]): readonly Promise<RenewReply>[] {
    const renewed = (some: readonly RenewCommand[]): readonly Promise<RenewReply>[] =>
      this.#inPortions(
        some,
        (portion) => this.#renewTogether(portion),
        async (command) => first(await this.#renewTogether([command])),
      );
    const needsNumbers = ({ reserves }: RenewCommand): boolean => reserves > 0;
    const withNumbers = renewed(commands.filter(needsNumbers));
    const others = commands.filter((command) => !needsNumbers(command));
    const { shortRenew } = this.#scripts;
    const isByKey = this.#inCluster && shortRenew !== undefined;
    const without = isByKey ? this.#renewByKey(others, shortRenew) : renewed(others);
    let [i, j] = [0, 0];
    return commands.map(
      (command) => (needsNumbers(command) ? withNumbers[i++] : without[j++]) as Promise<RenewReply>,
    );
  }

  /**
   * Sends commands for many keys in independent portions of KEYS_PER_SCRIPT. If Redis refuses the user one of the keys,
   * it refuses the whole script, and each key gets a separate command. In a cluster, each has one from the start,
   * because few keys share a slot, and each may need its short form while its slot is moving.
   */
  #inPortions<Command, Reply>(
    commands: readonly Command[],
    together: (portion: readonly Command[]) => Promise<readonly Reply[] | Unknown>,
    alone: (command: Command) => Promise<Reply>,
  ): readonly Promise<Reply | Unknown>[] {
    if (this.#inCluster || commands.length === 1) return commands.map(alone);
    const replies: Promise<Reply | Unknown>[] = [];
    for (let from = 0; from < commands.length; from += KEYS_PER_SCRIPT) {
      const portion = commands.slice(from, from + KEYS_PER_SCRIPT);
      const answer = together(portion);
      const replyTo = async (command: Command, i: number): Promise<Reply | Unknown> => {
        const all = await answer;
        if (!isUnknown(all)) return all[i] as Reply;
        return mustBeAlone(all.cause.cause) ? alone(command) : all;
      };
      replies.push(...portion.map(replyTo));
    }
    return replies;
  }

  shareStalls(observed: readonly ObservedHour[]): Promise<SharedStalls | Unknown> {
    const { stalls } = this.#keys;
    const args = [observed.map((of) => of.join(':')).join(' ')];
    const send = (redis: RedisConnection, whole: boolean): Promise<unknown> =>
      shareStallsScript.send(redis, [stalls], args, whole);
    return this.servers.run(
      { action: shareStallsScript.name, keys: [], redisKey: stalls, send },
      (outcome) => readOutcome(outcome, readSharedStalls),
    );
  }

  async #renewTogether(
    commands: readonly RenewCommand[],
  ): Promise<readonly RenewReply[] | Unknown> {
    const keys = commands.map(({ key }) => key);
    const action = keys.length === 1 ? `renew '${keys[0]}'` : `renew ${keys.length} leases`;
    const [{ key, token, leaseMs, reserves }] = commands as [RenewCommand];
    if (reserves === 0 && !this.#keys.areApart) return this.#prolongTogether(commands, action);
    const args = commands.flatMap((each) => [each.token, each.leaseMs, each.used, each.reserves]);
    const afterMs = reserves > 0 ? this.#wholeForMs : 0;
    const short = this.#whileMoving(afterMs, this.#scripts.shortRenew, key, [token, leaseMs]);
    const { renew } = this.#scripts;
    const read = (reply: unknown): readonly RenewReply[] => readRenewReply(reply, keys.length);
    return this.#send(renew, keys, args, action, read, {
      tokens: tokensIn(commands),
      whileMoving: short,
      readUnacknowledged: lossesIn(read),
    });
  }

  /**
   * In a cluster, each lease is renewed alone, but of several permits of one key only the first: all of them stand in
   * one value, which each command writes. The others are prolonged through their lock key, in portions.
   */
  #renewByKey(
    commands: readonly RenewCommand[],
    shortRenew: RedisScript,
  ): readonly Promise<RenewReply>[] {
    const byKey = new Map<string, number[]>();
    commands.forEach(({ key }, i) => byKey.set(key, [...(byKey.get(key) ?? []), i]));
    const replies: Promise<RenewReply>[] = [];
    for (const [head, ...others] of byKey.values() as Iterable<[number, ...number[]]>) {
      const command = commands[head] as RenewCommand;
      replies[head] = this.#renewTogether([command]).then(first);
      for (let from = 0; from < others.length; from += KEYS_PER_SCRIPT) {
        const portion = others.slice(from, from + KEYS_PER_SCRIPT);
        const renewals = portion.map((i) => commands[i] as RenewCommand);
        const answer = this.#renewOnOneKey(renewals, shortRenew);
        portion.forEach((i, nth) => {
          replies[i] = answer.then((all) => (isUnknown(all) ? all : (all[nth] as RenewReply)));
        });
      }
    }
    return replies;
  }

  #renewOnOneKey(
    commands: readonly RenewCommand[],
    shortRenew: RedisScript,
  ): Promise<readonly RenewReply[] | Unknown> {
    const [{ key }] = commands as [RenewCommand];
    const args = commands.flatMap(({ token, leaseMs }) => [token, leaseMs]);
    const read = (reply: unknown): readonly RenewReply[] => readRenewReply(reply, commands.length);
    return this.#send(
      shortRenew,
      [key],
      args,
      `renew ${commands.length} permits of '${key}'`,
      read,
      {
        tokens: tokensIn(commands),
        redisKeysOf: () => [this.#keys.lockOf(key)],
        whileMoving: this.#whileMoving(0, shortRenew, key, args),
        readUnacknowledged: lossesIn(read),
      },
    );
  }

  /** Prolongs leases that need no fencing numbers, and whose fence does not expire. */
  #prolongTogether(
    commands: readonly RenewCommand[],
    action: string,
  ): Promise<readonly RenewReply[] | Unknown> {
    const keys = commands.map(({ key }) => key);
    const args = commands.flatMap(({ token, leaseMs }) => [token, leaseMs]);
    const read = (reply: unknown): readonly RenewReply[] => readProlongReply(reply, keys.length);
    return this.#send(this.#scripts.prolong, keys, args, action, read, {
      tokens: tokensIn(commands),
      redisKeysOf: (key) => this.#keys.of(key).slice(0, 2),
      readUnacknowledged: lossesIn(read),
    });
  }

  #run<Reply>(
    script: RedisScript,
    key: string,
    args: Arguments | (() => Arguments),
    readReply: ReadReply<Reply>,
    also: Also<Reply> = {},
  ): Promise<Reply | Unknown> {
    return this.#send(script, [key], args, `${script.name} '${key}'`, readReply, also);
  }

  #partOf(
    script: RedisScript,
    keys: () => readonly string[],
    args: Arguments | (() => Arguments),
  ): BatchPart | undefined {
    const { batch, acquire, release } = this.#scripts;
    if (batch === undefined || (script !== acquire && script !== release)) return undefined;
    return { script: batch, isAcquire: script === acquire, keys, args };
  }

  get #inCluster(): boolean {
    return this.servers.slotOf !== undefined;
  }

  get #wholeForMs(): number {
    return Math.min(WHOLE_FOR_MS, this.commandTimeoutMs / 2);
  }

  /** The command for one key of a cluster while its slot is moving. */
  #whileMoving(
    afterMs: number,
    script: RedisScript | undefined,
    key: string,
    args: Arguments | (() => Arguments),
  ): WhileMoving | undefined {
    if (!this.#inCluster || script === undefined) return undefined;
    const lock = this.#keys.lockOf(key);
    return { afterMs, send: (redis, whole) => script.send(redis, [lock], ofNow(args), whole) };
  }

  #send<Reply>(
    script: RedisScript,
    keys: readonly string[],
    args: Arguments | (() => Arguments),
    action: string,
    readReply: ReadReply<Reply>,
    {
      whileMoving,
      readUnacknowledged,
      redisKeysOf = (key) => this.#keys.of(key),
      tokens,
    }: Also<Reply> = {},
  ): Promise<Reply | Unknown> {
    const [only = ''] = keys;
    // At each sending: which fence is used may turn out meanwhile.
    const redisKeys = (): readonly string[] =>
      keys.length === 1 ? redisKeysOf(only) : keys.flatMap(redisKeysOf);
    const command: RedisCommand = {
      action,
      keys,
      tokens,
      redisKey: this.#keys.lockOf(only),
      whileMoving,
      part: this.#partOf(script, redisKeys, args),
      send: (redis: RedisConnection, whole: boolean) =>
        script.send(redis, redisKeys(), ofNow(args), whole),
      isUnfinished,
      mustBeReplicated: script.mustBeReplicated,
    };
    return this.servers.run(command, (outcome) =>
      readOutcome(outcome, readReply, readUnacknowledged),
    );
  }
}

/** What replicas have not acknowledged is not certain, unless it is a loss. */
function lossesIn(
  read: (reply: unknown) => readonly RenewReply[],
): ReadUnacknowledged<readonly RenewReply[]> {
  return ({ reply }, unknown) =>
    read(reply).map((renewed) => (renewed.kind === 'lost' ? renewed : unknown));
}

function known(tokens: readonly (string | undefined)[]): readonly string[] {
  return tokens.filter((token) => token !== undefined);
}

function tokensIn(commands: readonly RenewCommand[]): readonly string[] {
  return commands.map(({ token }) => token);
}

function ownLayout({
  client,
  keyPrefix,
  leaseMs,
  fenceKeepMs,
}: RedisLockStoreOptions): StoreLayout {
  const inCluster = isCluster(client);
  const keys = new RedisKeys(keyPrefix, inCluster);
  const scripts = new LockScripts({
    inCluster,
    inboxPrefix: keys.inboxPrefix,
    acceptMs: acceptanceLeaseMs(leaseMs),
    fenceKeepMs: fenceKeepMs ?? FENCE_KEEP_MS,
  });
  return { keys, scripts, Inspector: RedisLockInspector };
}

function notFromWorker(what: string): LockConfigError {
  return new LockConfigError(
    `renewFrom: 'worker' cannot be used with ${what}; use renewFrom: 'main', and keep the event loop from being blocked for longer than leaseMs allows`,
  );
}

/** The answer to a command for one key. */
function first<Reply>(replies: readonly Reply[] | Unknown): Reply | Unknown {
  return isUnknown(replies) ? replies : (replies[0] as Reply);
}

function leftOr(error: string | undefined, key = ''): TakeBackReply {
  if (error === undefined) return { kind: 'left' };
  const message = `Cannot take back what was left for '${key}': ${error}`;
  const unknown: Unknown = { kind: 'unknown', cause: new LockStoreError(message, key) };
  return lacksRights(new Error(error)) ? { ...unknown, isRefused: true } : unknown;
}

/** The arguments of a script. Those that depend on the time are computed at each sending. */
type Arguments = readonly (string | number)[];

function ofNow(args: Arguments | (() => Arguments)): Arguments {
  return typeof args === 'function' ? args() : args;
}

interface TimedTakeBack extends TakeBackCommand {
  readonly keep: KeepTime;
}

/** Properties of some commands only. */
interface Also<Reply> {
  /** @default all keys of a lock */
  readonly redisKeysOf?: (key: string) => readonly string[];
  readonly whileMoving?: WhileMoving | undefined;
  readonly readUnacknowledged?: ReadUnacknowledged<Reply>;
  readonly tokens?: RedisCommand['tokens'];
}
