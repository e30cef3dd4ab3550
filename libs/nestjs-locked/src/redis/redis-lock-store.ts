import { LockStoreError } from '../core/lock.errors.js';
import { quotedList } from '../core/runtime/quoted.js';
import { acceptanceLeaseMs, safetyIntervalMs } from '../core/store/lease-timing.js';
import { newProcessId } from '../core/store/lease-token.js';
import type {
  AcquireCommand,
  AcquireReply,
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
  Unknown,
} from '../core/store/lock-store.js';
import type { Clock } from '../core/time/clock.js';
import type { RedisClient } from './connection/redis-client.js';
import type { CommandOutcome } from './connection/redis-command.js';
import { RedisConnections } from './connection/redis-connections.js';
import type { ServerInfo } from './connection/server-info.js';
import { RedisLockDirectory } from './redis-lock-directory.js';
import { acquireScript } from './scripts/acquire.lua.js';
import { acquireTogetherScript } from './scripts/acquire-together.lua.js';
import { inspectScript } from './scripts/inspect.lua.js';
import { leaveScript } from './scripts/leave.lua.js';
import { probeScript } from './scripts/probe.lua.js';
import { recheckScript } from './scripts/recheck.lua.js';
import { FENCE_KEEP_MS, RedisKeys } from './scripts/redis-keys.js';
import type { RedisScript } from './scripts/redis-script.js';
import { releaseScript } from './scripts/release.lua.js';
import { renewScript } from './scripts/renew.lua.js';
import { revokeScript } from './scripts/revoke.lua.js';
import {
  completed,
  readAcquireReply,
  readHandoverReply,
  readLeaveReply,
  readReleaseReply,
  readRenewReply,
  readRequeueReply,
  readTogetherReply,
} from './scripts/script-replies.js';

export interface RedisLockStoreOptions {
  /** The client whose options our own connections are made from. */
  readonly client: RedisClient;
  readonly clock: Clock;
  /** Precedes every key and channel, e.g. `lock:`. */
  readonly keyPrefix: string;
  /** The service's lease, from which the time limits and the acceptance lease follow. */
  readonly leaseMs: number;
  /** How far Redis' clock may be set back without a fencing number being given out twice. @default 10 minutes */
  readonly fenceKeepMs?: number;
  /** Called after the store has stopped using the client. */
  readonly closeClient: () => Promise<void>;
}

const SCRIPTS = [
  acquireScript,
  acquireTogetherScript,
  inspectScript,
  leaveScript,
  probeScript,
  recheckScript,
  releaseScript,
  renewScript,
  revokeScript,
];

/**
 * Leases in one Redis server. There is a script for each command, one connection for all commands, and another one for
 * the inbox. Both connections are our own; of the client, only the options are used.
 */
export class RedisLockStore implements LockStore {
  readonly processId = newProcessId();
  readonly commandTimeoutMs: number;
  readonly directory: RedisLockDirectory;
  /** The first arguments of every script. */
  readonly #settings: readonly (string | number)[];
  readonly #options: RedisLockStoreOptions;
  readonly #keys: RedisKeys;
  readonly #connections: RedisConnections;
  /** The policy that the listener was told last. */
  #evictionPolicy: string | undefined;

  constructor(options: RedisLockStoreOptions) {
    const { client, clock, keyPrefix, leaseMs } = options;
    this.#options = options;
    this.#keys = new RedisKeys(keyPrefix);
    this.#settings = [
      this.#keys.inboxPrefix,
      acceptanceLeaseMs(leaseMs),
      options.fenceKeepMs ?? FENCE_KEEP_MS,
    ];
    this.commandTimeoutMs = Math.min(5_000, Math.ceil(leaseMs / 3));
    const { processId } = this;
    const keys = this.#keys;
    this.#connections = new RedisConnections({
      client,
      clock,
      keys,
      processId,
      scripts: SCRIPTS,
      timeLimitMs: this.commandTimeoutMs,
      pingEveryMs: safetyIntervalMs(leaseMs),
    });
    const { commands } = this.#connections;
    const connectionPrefix = client.options.keyPrefix ?? '';
    this.directory = new RedisLockDirectory({ commands, clock, keys, processId, connectionPrefix });
  }

  get inboxReady(): boolean {
    return this.#connections.inboxReady;
  }

  async open(listener: StoreListener): Promise<void> {
    try {
      const server = await this.#connections.open({
        message: (message) => listener.message(message),
        subscribed: () => listener.reconnected(),
        inboxLost: () => listener.inboxLost(),
        connected: (newServer) => {
          listener.reconnected();
          this.#tellEviction(newServer, listener);
          this.directory.present().catch(() => {}); // perhaps to another server; only people read it
        },
      });
      await this.directory.present();
      this.#tellEviction(server, listener);
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  #tellEviction({ evictionPolicy }: ServerInfo, listener: StoreListener): void {
    if (evictionPolicy === this.#evictionPolicy) return;
    this.#evictionPolicy = evictionPolicy;
    if (evictionPolicy !== undefined) listener.mayEvict(evictionPolicy);
  }

  /** Waits for the commands on their way, each within its time limit, because what they acquire must be released. */
  async close(): Promise<void> {
    await this.#connections.commands.idle();
    await this.directory.leave();
    this.#connections.close();
    await this.#options.closeClient();
  }

  acquire({ key, token, leaseMs, nowait, score }: AcquireCommand): Promise<AcquireReply> {
    const args = [token, leaseMs, nowait ? 1 : 0, score ?? ''];
    return this.#run(acquireScript, key, args, readAcquireReply);
  }

  async recheck({ key, token, newToken, leaseMs, score }: RecheckCommand): Promise<RecheckReply> {
    return this.#run(recheckScript, key, [token, newToken, leaseMs, score], readRequeueReply);
  }

  async acquireTogether(commands: readonly AcquireCommand[]): Promise<readonly AcquireReply[]> {
    const tokens = commands.map(({ token }) => token);
    const leaseMs = Math.max(...commands.map((command) => command.leaseMs));
    const keys = commands.map(({ key }) => key);
    const others = keys.length > 3 ? ` and ${keys.length - 3} more` : '';
    const outcome = await this.#send(
      acquireTogetherScript,
      keys,
      [leaseMs, ...tokens],
      `acquire ${quotedList(keys.slice(0, 3))}${others}`,
    );
    const replies = read(outcome, (reply) => readTogetherReply(reply, tokens));
    return isUnknown(replies) ? commands.map(() => replies) : replies;
  }

  async release({ key, token, used, keepMs = 0 }: ReleaseCommand): Promise<ReleaseReply> {
    const outcome = await this.#sendOne(releaseScript, key, [token, used, '', 0, keepMs]);
    const reply = read(outcome, readReleaseReply);
    return reply.kind === 'lost' && mayBeRepeated(outcome) ? { kind: 'released' } : reply;
  }

  async requeue(command: RequeueCommand): Promise<RequeueReply> {
    const { key, token, used, newToken, leaseMs } = command;
    const outcome = await this.#sendOne(releaseScript, key, [token, used, newToken, leaseMs, 0]);
    const reply = read(outcome, readHandoverReply);
    return reply.kind !== 'unknown' && mayBeRepeated(outcome)
      ? { ...reply, wasLost: false }
      : reply;
  }

  leave({ key, tokens: [token, other = ''], take, leaseMs }: LeaveCommand): Promise<LeaveReply> {
    return this.#run(leaveScript, key, [token, other, take ? 1 : 0, leaseMs], readLeaveReply);
  }

  async renew(commands: readonly RenewCommand[]): Promise<readonly RenewReply[]> {
    const keys = commands.map(({ key }) => key);
    const args = commands.flatMap(({ token, leaseMs, used }) => [token, leaseMs, used]);
    const outcome = await this.#send(renewScript, keys, args, `renew ${keys.length} leases`);
    const replies = read(outcome, readRenewReply);
    return isUnknown(replies) ? commands.map(() => replies) : replies;
  }

  async #run<Reply>(
    script: RedisScript,
    key: string,
    args: readonly (string | number)[],
    readReply: (reply: unknown) => Reply,
  ): Promise<Reply | Unknown> {
    return read(await this.#sendOne(script, key, args), readReply);
  }

  #sendOne(
    script: RedisScript,
    key: string,
    args: readonly (string | number)[],
  ): Promise<CommandOutcome> {
    return this.#send(script, [key], args, `${script.name} '${key}'`);
  }

  #send(
    script: RedisScript,
    keys: readonly string[],
    args: readonly (string | number)[],
    action: string,
  ): Promise<CommandOutcome> {
    const redisKeys = keys.flatMap((key) => this.#keys.of(key));
    const all = [...this.#settings, ...args];
    return this.#connections.commands.run({
      action,
      keys,
      send: (redis, mayRepeat) =>
        completed(() => script.run(redis, redisKeys, all, mayRepeat), mayRepeat),
    });
  }
}

/** The command may have been sent twice, and the answer "not yours" may only mean that the first time succeeded. */
function mayBeRepeated(outcome: CommandOutcome): boolean {
  return outcome.kind === 'answered' && outcome.mayHaveRunBefore;
}

/** Reads what Redis answered. Anything else becomes `unknown`, with the reason. */
function read<Reply>(
  outcome: CommandOutcome,
  readReply: (reply: unknown) => Reply,
): Reply | Unknown {
  if (outcome.kind === 'failed') {
    const { cause, neverRan } = outcome;
    if (cause.message.includes('WRONGTYPE')) return wrongType(cause);
    return neverRan ? { kind: 'unknown', cause, neverRan } : { kind: 'unknown', cause };
  }
  try {
    return readReply(outcome.reply);
  } catch (cause) {
    const message = `Cannot read the answer of Redis: ${String(cause)}`;
    return { kind: 'unknown', cause: new LockStoreError(message, undefined, { cause }) };
  }
}

function wrongType(cause: LockStoreError): Unknown {
  const message = `${cause.message}; the key in Redis is not a string, so it was written by something else, such as a lock library that keeps a hash: use another key or keyPrefix`;
  return {
    kind: 'unknown',
    cause: new LockStoreError(message, undefined, { cause }),
    isLasting: true,
  };
}

function isUnknown<T extends object>(replies: T | Unknown): replies is Unknown {
  return 'kind' in replies;
}
