import { randomBytes } from 'node:crypto';
import type { Clock } from '../core/clock.js';
import { LockConfigError, LockStoreError } from '../core/lock.errors.js';
import { acceptanceLeaseMs, safetyIntervalMs } from '../core/lease-timing.js';
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
} from '../core/lock-store.js';
import { parseInboxMessage } from './inbox-message.js';
import type { RedisClient } from './redis-client.js';
import { quotedList } from '../core/quoted.js';
import { RedisInbox } from './redis-inbox.js';
import type { RedisScript } from './redis-script.js';
import {
  readAcquireReply,
  readLeaveReply,
  readReleaseReply,
  readRenewReply,
  readRequeueReply,
  readTogetherReply,
} from './script-replies.js';
import { RedisKeys } from './redis-keys.js';
import { RedisLockDirectory } from './redis-lock-directory.js';
import { acquireTogetherScript } from './scripts/acquire-together.lua.js';
import { acquireScript } from './scripts/acquire.lua.js';
import { leaveScript } from './scripts/leave.lua.js';
import { probeScript } from './scripts/probe.lua.js';
import { recheckScript } from './scripts/recheck.lua.js';
import { releaseScript } from './scripts/release.lua.js';
import { renewScript } from './scripts/renew.lua.js';
import { withinLimit } from './time-limit.js';

export interface RedisLockStoreOptions {
  readonly client: RedisClient;
  readonly clock: Clock;
  /** Before every key and channel, e.g. `lock:`. */
  readonly keyPrefix: string;
  /** The service's lease: time limits and the acceptance lease follow from it. */
  readonly leaseMs: number;
  /** Called once, after the store has stopped using the client. */
  readonly closeClient: () => Promise<void>;
}

/** How long `open` tries before it gives up, in milliseconds. */
const OPEN_LIMIT_MS = 10_000;

/** Oldest version whose scripts, ACLs and PUBSUB behave as the protocol needs. */
const OLDEST_REDIS = [6, 2] as const;

/** Leases in one Redis server: a script for each command, all commands on one connection, an inbox on another. */
export class RedisLockStore implements LockStore {
  readonly processId = randomBytes(16).toString('hex');
  readonly commandTimeoutMs: number;
  readonly #client: RedisClient;
  readonly #clock: Clock;
  readonly #keys: RedisKeys;
  readonly directory: RedisLockDirectory;
  readonly #acceptMs: number;
  readonly #options: RedisLockStoreOptions;
  #inbox: RedisInbox | undefined;
  #listener: StoreListener | undefined;
  /** Counts connections: a command during which it changed may have run twice. */
  #connections = 0;

  constructor(options: RedisLockStoreOptions) {
    this.#options = options;
    this.#client = options.client;
    this.#clock = options.clock;
    this.#keys = new RedisKeys(options.keyPrefix);
    this.#acceptMs = acceptanceLeaseMs(options.leaseMs);
    this.commandTimeoutMs = Math.min(5_000, Math.ceil(options.leaseMs / 3));
    this.directory = new RedisLockDirectory({
      client: options.client,
      clock: options.clock,
      keys: this.#keys,
      processId: this.processId,
      timeLimitMs: this.commandTimeoutMs,
    });
  }

  get inboxReady(): boolean {
    return this.#inbox?.ready ?? false;
  }

  async open(listener: StoreListener): Promise<void> {
    const inbox = this.#openInbox(listener);
    try {
      await inbox;
    } catch (error) {
      await this.close();
      throw error;
    }
    this.#listener = listener;
    this.#client.on('ready', this.#onReady);
  }

  async close(): Promise<void> {
    this.#client.off('ready', this.#onReady);
    await this.directory.leave();
    this.#inbox?.close();
    this.#inbox = undefined;
    await this.#options.closeClient();
  }

  acquire({ name, token, leaseMs, nowait, score }: AcquireCommand): Promise<AcquireReply> {
    const args = [token, leaseMs, nowait ? 1 : 0, score ?? ''];
    return this.#run(acquireScript, name, args, readAcquireReply);
  }

  async recheck({ name, token, newToken, leaseMs, score }: RecheckCommand): Promise<RecheckReply> {
    return this.#run(recheckScript, name, [token, newToken, leaseMs, score], readRequeueReply);
  }

  async acquireTogether(commands: readonly AcquireCommand[]): Promise<readonly AcquireReply[]> {
    const tokens = commands.map(({ token }) => token);
    const leaseMs = Math.max(...commands.map((command) => command.leaseMs));
    const names = commands.map(({ name }) => name);
    try {
      const keys = names.flatMap((name) => this.#keys.of(name));
      const args = [leaseMs, ...tokens];
      const action = `acquire ${quotedList(names)}`;
      return readTogetherReply(await this.#send(acquireTogetherScript, keys, args, action), tokens);
    } catch (error) {
      return commands.map(() => unknownBecause(error));
    }
  }

  async release({ name, token, used, keepMs }: ReleaseCommand): Promise<ReleaseReply> {
    const connection = this.#connections;
    const args = [token, used, '', 0, keepMs];
    const reply = await this.#run(releaseScript, name, args, readReleaseReply);
    // ioredis repeats unanswered commands on a new connection: "not yours" may then be the answer to the second one.
    return reply.kind === 'lost' && connection !== this.#connections ? { kind: 'released' } : reply;
  }

  requeue({ name, token, used, newToken, leaseMs }: RequeueCommand): Promise<RequeueReply> {
    return this.#run(releaseScript, name, [token, used, newToken, leaseMs, 0], readRequeueReply);
  }

  leave({ name, tokens: [token, other = ''], take, leaseMs }: LeaveCommand): Promise<LeaveReply> {
    return this.#run(leaveScript, name, [token, other, take ? 1 : 0, leaseMs], readLeaveReply);
  }

  async renew(commands: readonly RenewCommand[]): Promise<readonly RenewReply[]> {
    const keys = commands.flatMap((command) => this.#keys.of(command.name));
    const args = commands.flatMap(({ token, leaseMs, used }) => [token, leaseMs, used]);
    try {
      return readRenewReply(
        await this.#send(renewScript, keys, args, `renew ${commands.length} leases`),
      );
    } catch (error) {
      return commands.map(() => unknownBecause(error));
    }
  }

  async #run<Reply>(
    script: RedisScript,
    name: string,
    args: readonly (string | number)[],
    read: (reply: unknown) => Reply,
  ): Promise<Reply | Unknown> {
    try {
      const all = [this.#keys.inboxPrefix, this.#acceptMs, ...args];
      return read(await this.#send(script, this.#keys.of(name), all, `${script.name} '${name}'`));
    } catch (error) {
      return unknownBecause(error);
    }
  }

  #send(
    script: RedisScript,
    keys: readonly string[],
    args: readonly (string | number)[],
    action: string,
  ): Promise<unknown> {
    return withinLimit(this.#clock, this.commandTimeoutMs, action, (isWanted) =>
      script.run(this.#client, keys, args, isWanted),
    );
  }

  readonly #onReady = (): void => {
    this.#connections++;
    this.#listener?.reconnected();
    void this.directory.present().catch(() => {}); // the server may be another one; only people miss it
  };

  /** Subscribes, then publishes to ourselves through a script: proves server, rights, prefix and subscription. */
  async #openInbox(listener: StoreListener): Promise<void> {
    const channel = this.#keys.inboxPrefix + this.processId;
    let subscribed = (): void => {};
    let probed = (): void => {};
    const firstSubscription = new Promise<void>((resolve) => (subscribed = resolve));
    const probeArrived = new Promise<void>((resolve) => (probed = resolve));
    const inbox = new RedisInbox(
      this.#client,
      {
        channel,
        clock: this.#clock,
        timeLimitMs: this.commandTimeoutMs,
        pingEveryMs: safetyIntervalMs(this.#options.leaseMs),
      },
      {
        subscribed: () => {
          subscribed();
          this.#listener?.reconnected();
        },
        lost: () => this.#listener?.inboxLost(),
        message: (text) => {
          const message = parseInboxMessage(text);
          if (message === 'probe') probed();
          else if (message !== undefined) listener.message(message);
        },
      },
    );
    this.#inbox = inbox;
    await this.#whileOpening('subscribe to the inbox', channel, () => firstSubscription);
    await this.#whileOpening('prove the scripts', channel, () =>
      probeScript.run(
        this.#client,
        this.#keys.of(`probe:${this.processId}`),
        [channel, 'probe'],
        () => true,
      ),
    );
    await this.#whileOpening('receive a message in the inbox', channel, () => probeArrived);
    await this.#readInfo(listener);
    await this.directory.present();
  }

  async #whileOpening(
    action: string,
    channel: string,
    step: () => Promise<unknown>,
  ): Promise<void> {
    try {
      await withinLimit(this.#clock, OPEN_LIMIT_MS, action, step);
    } catch (error) {
      const cause = this.#inbox?.lastError ?? error;
      const reason = String(
        error instanceof Error && error.cause instanceof Error ? error.cause.message : cause,
      );
      if (/NOPERM|No permission/i.test(reason)) {
        throw new LockConfigError(
          `Cannot ${action}: the Redis user lacks rights (${reason}); it needs keys ~${this.#keys.prefix}*, channels &${this.#keys.inboxPrefix}* and the commands of scripts, strings, sorted sets and pub/sub, e.g. ACL SETUSER <user> ~${this.#keys.prefix}* &${this.#keys.inboxPrefix}* +@all`,
          undefined,
          { cause },
        );
      }
      throw new LockStoreError(
        `Cannot ${action} (channel '${channel}') within ${OPEN_LIMIT_MS} ms: ${reason}; check the address in 'connection' and that Redis is running`,
        undefined,
        { cause },
      );
    }
  }

  async #readInfo(listener: StoreListener): Promise<void> {
    const info = await this.#client.info('all').catch(() => '');
    const [, maxMemory] = /^maxmemory:(\d+)/m.exec(info) ?? [];
    const [, policy] = /^maxmemory_policy:(\S+)/m.exec(info) ?? [];
    if (maxMemory !== '0' && policy !== undefined && policy !== 'noeviction')
      listener.mayEvict(policy);
    const [, major, minor] = /redis_version:(\d+)\.(\d+)/.exec(info) ?? [];
    if (major === undefined || minor === undefined) return; // not allowed to know; the probe has passed
    const [oldestMajor, oldestMinor] = OLDEST_REDIS;
    if (+major > oldestMajor || (+major === oldestMajor && +minor >= oldestMinor)) return;
    throw new LockConfigError(
      `Redis ${major}.${minor} is too old: nestjs-locked needs ${OLDEST_REDIS.join('.')} or newer`,
    );
  }
}

function unknownBecause(error: unknown): Unknown {
  const cause =
    error instanceof LockStoreError
      ? error
      : new LockStoreError(`Cannot read the answer of Redis: ${String(error)}`, undefined, {
          cause: error,
        });
  return { kind: 'unknown', cause };
}
