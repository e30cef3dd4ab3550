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
import { atMost } from '../core/time/at-most.js';
import type { Clock } from '../core/time/clock.js';
import type { RedisClient, RedisConnection } from './connection/redis-client.js';
import type { CommandOutcome } from './connection/redis-command.js';
import { RedisConnections } from './connection/redis-connections.js';
import type { ServerInfo } from './connection/server-info.js';
import { RedisLockDirectory } from './redis-lock-directory.js';
import { LockScripts } from './scripts/lock-scripts.js';
import { FENCE_KEEP_MS, RedisKeys } from './scripts/redis-keys.js';
import type { RedisScript } from './scripts/redis-script.js';
import {
  isUnfinished,
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
  /** How long the first `open` waits for Redis. @default 10 seconds */
  readonly startMs?: number;
  /** How far Redis' clock may be set back without a fencing number being given out twice. @default 10 minutes */
  readonly fenceKeepMs?: number;
  /** Called after the store has stopped using the client. */
  readonly closeClient: () => Promise<void>;
}

/** How long the start of the application waits for Redis. */
const START_MS = 10_000;

/**
 * Leases in one Redis server. There is a script for each command, one connection for all commands, and another one for
 * the inbox. Both connections are our own; of the client, only the options are used.
 */
export class RedisLockStore implements LockStore {
  readonly processId = newProcessId();
  readonly commandTimeoutMs: number;
  readonly directory: RedisLockDirectory;
  readonly #scripts: LockScripts;
  readonly #fenceKeepMs: number;
  readonly #options: RedisLockStoreOptions;
  readonly #keys: RedisKeys;
  readonly #connections: RedisConnections;
  /** Whether `open` was called before. */
  #isRepeated = false;
  /** The policy that the listener was told last. */
  #evictionPolicy: string | undefined;

  constructor(options: RedisLockStoreOptions) {
    const { client, clock, keyPrefix, leaseMs } = options;
    this.#options = options;
    this.#keys = new RedisKeys(keyPrefix);
    this.#fenceKeepMs = options.fenceKeepMs ?? FENCE_KEEP_MS;
    this.#scripts = new LockScripts({
      inboxPrefix: this.#keys.inboxPrefix,
      acceptMs: acceptanceLeaseMs(leaseMs),
      fenceKeepMs: this.#fenceKeepMs,
    });
    this.commandTimeoutMs = Math.min(5_000, Math.ceil(leaseMs / 3));
    const { processId } = this;
    const keys = this.#keys;
    this.#connections = new RedisConnections({
      client,
      clock,
      keys,
      processId,
      scripts: this.#scripts.all,
      timeLimitMs: this.commandTimeoutMs,
      pingEveryMs: safetyIntervalMs(leaseMs),
    });
    this.directory = new RedisLockDirectory({
      commands: this.#connections.commands,
      clock,
      keys,
      scripts: this.#scripts,
      processId,
      connectionPrefix: client.options.keyPrefix ?? '',
    });
  }

  get inboxReady(): boolean {
    return this.#connections.inboxReady;
  }

  /** May be called again after it has failed. */
  async open(listener: StoreListener): Promise<void> {
    const { startMs = START_MS } = this.#options;
    // A start that waits for a short time only, or not at all, must not keep later attempts from being successful.
    const limitMs = this.#isRepeated ? Math.max(startMs, START_MS) : startMs;
    this.#isRepeated = true;
    try {
      const server = await this.#connections.open(
        {
          message: (message) => listener.message(message),
          subscribed: () => listener.reconnected(),
          inboxLost: () => listener.inboxLost(),
          lost: (cause) => listener.storeLost(cause),
          back: () => listener.storeBack(),
          connected: (newServer) => {
            listener.reconnected();
            this.#tellEviction(newServer, listener);
            this.directory.present().catch(() => {}); // perhaps to another server; only people read it
          },
        },
        limitMs,
      );
      await this.directory.enter();
      this.#tellEviction(server, listener);
    } catch (error) {
      await this.directory.leave();
      this.#connections.close();
      await this.#options.closeClient();
      throw error;
    }
  }

  #tellEviction({ evictionPolicy }: ServerInfo, listener: StoreListener): void {
    if (evictionPolicy === this.#evictionPolicy) return;
    this.#evictionPolicy = evictionPolicy;
    if (evictionPolicy !== undefined) listener.mayEvict(evictionPolicy);
  }

  /** Waits for the commands on their way, because what they acquire must be released. */
  async close(limitMs = this.commandTimeoutMs): Promise<void> {
    const { commands } = this.#connections;
    const { clock } = this.#options;
    const inGoodOrder = async (): Promise<void> => {
      await commands.idle();
      await this.directory.leave();
    };
    await atMost(clock, limitMs, inGoodOrder()); // then without what was not answered
    this.#connections.close();
    await this.directory.leave();
    await this.#options.closeClient();
  }

  acquire({ key, token, leaseMs, nowait, score }: AcquireCommand): Promise<AcquireReply> {
    const args: (string | number)[] = [token, leaseMs, leaseMs + this.#fenceKeepMs];
    if (nowait) args.push(1);
    else if (score !== undefined) args.push(0, score);
    return this.#run(this.#scripts.acquire, key, args, (reply) => readAcquireReply(reply, token));
  }

  recheck({ key, token, newToken, leaseMs, score }: RecheckCommand): Promise<RecheckReply> {
    return this.#run(
      this.#scripts.recheck,
      key,
      [token, newToken, leaseMs, score],
      readRequeueReply,
    );
  }

  async acquireTogether(commands: readonly AcquireCommand[]): Promise<readonly AcquireReply[]> {
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
    );
    return isUnknown(replies) ? commands.map(() => replies) : replies;
  }

  release({ key, token, used, keepMs = 0 }: ReleaseCommand): Promise<ReleaseReply> {
    const args: (string | number)[] = [token];
    if (keepMs > 0) args.push(used, '', 0, keepMs);
    else if (used > 0) args.push(used);
    return this.#run(this.#scripts.release, key, args, (reply, mayHaveRunBefore) => {
      const released = readReleaseReply(reply);
      // The answer "not yours" may only mean that the first of two runs succeeded.
      return released.kind === 'lost' && mayHaveRunBefore ? { kind: 'released' } : released;
    });
  }

  requeue(command: RequeueCommand): Promise<RequeueReply> {
    const { key, token, used, newToken, leaseMs } = command;
    const args = [token, used, newToken, leaseMs];
    return this.#run(this.#scripts.release, key, args, (reply, mayHaveRunBefore) => {
      const asked = readHandoverReply(reply);
      return mayHaveRunBefore ? { ...asked, wasLost: false } : asked;
    });
  }

  leave({ key, tokens: [token, other = ''], take, leaseMs }: LeaveCommand): Promise<LeaveReply> {
    return this.#run(
      this.#scripts.leave,
      key,
      [token, other, take ? 1 : 0, leaseMs],
      readLeaveReply,
    );
  }

  async renew(commands: readonly RenewCommand[]): Promise<readonly RenewReply[]> {
    const keys = commands.map(({ key }) => key);
    const args = commands.flatMap(({ token, leaseMs, used, reserves }) => [
      token,
      leaseMs,
      used,
      reserves ? 1 : 0,
    ]);
    const action = keys.length === 1 ? `renew '${keys[0]}'` : `renew ${keys.length} leases`;
    const replies = await this.#send(this.#scripts.renew, keys, args, action, readRenewReply);
    return isUnknown(replies) ? commands.map(() => replies) : replies;
  }

  #run<Reply>(
    script: RedisScript,
    key: string,
    args: readonly (string | number)[],
    readReply: ReadReply<Reply>,
  ): Promise<Reply | Unknown> {
    return this.#send(script, [key], args, `${script.name} '${key}'`, readReply);
  }

  #send<Reply>(
    script: RedisScript,
    keys: readonly string[],
    args: readonly (string | number)[],
    action: string,
    readReply: ReadReply<Reply>,
  ): Promise<Reply | Unknown> {
    const [only = ''] = keys;
    const redisKeys =
      keys.length === 1 ? this.#keys.of(only) : keys.flatMap((key) => this.#keys.of(key));
    const command = {
      action,
      keys,
      send: (redis: RedisConnection, whole: boolean) => script.send(redis, redisKeys, args, whole),
      isUnfinished,
    };
    return this.#connections.commands.run(command, (outcome) => read(outcome, readReply));
  }
}

/** @param mayHaveRunBefore the command may have been carried out twice */
type ReadReply<Reply> = (reply: unknown, mayHaveRunBefore: boolean) => Reply;

/** Reads what Redis answered. Anything else becomes `unknown`, with the reason. */
function read<Reply>(outcome: CommandOutcome, readReply: ReadReply<Reply>): Reply | Unknown {
  if (outcome.kind === 'failed') {
    const { cause, neverRan } = outcome;
    if (cause.message.includes('WRONGTYPE')) return wrongType(cause);
    return neverRan ? { kind: 'unknown', cause, neverRan } : { kind: 'unknown', cause };
  }
  try {
    return readReply(outcome.reply, outcome.mayHaveRunBefore);
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
