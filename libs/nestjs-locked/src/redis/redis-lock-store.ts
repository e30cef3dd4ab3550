import { randomBytes } from 'node:crypto';
import { setImmediate as immediate } from 'node:timers/promises';
import type { Clock } from '../core/clock.js';
import { LockStoreError } from '../core/lock.errors.js';
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
  completed,
  readAcquireReply,
  readLeaveReply,
  readReleaseReply,
  readRenewReply,
  readRequeueReply,
  readTogetherReply,
} from './script-replies.js';
import { RedisHandshake } from './redis-handshake.js';
import { FENCE_KEEP_MS, RedisKeys } from './redis-keys.js';
import { RedisLockDirectory } from './redis-lock-directory.js';
import { acquireTogetherScript } from './scripts/acquire-together.lua.js';
import { acquireScript } from './scripts/acquire.lua.js';
import { leaveScript } from './scripts/leave.lua.js';
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
  /** How long a fencing number is kept after Redis' clock has passed it. @default FENCE_KEEP_MS */
  readonly fenceKeepMs?: number;
  /** Called once, after the store has stopped using the client. */
  readonly closeClient: () => Promise<void>;
}

/** Leases in one Redis server: a script for each command, all commands on one connection, an inbox on another. */
export class RedisLockStore implements LockStore {
  readonly processId = randomBytes(16).toString('hex');
  readonly commandTimeoutMs: number;
  readonly #client: RedisClient;
  readonly #clock: Clock;
  readonly #keys: RedisKeys;
  readonly directory: RedisLockDirectory;
  /** The first arguments of every script. */
  readonly #settings: readonly (string | number)[];
  readonly #options: RedisLockStoreOptions;
  #inbox: RedisInbox | undefined;
  #listener: StoreListener | undefined;
  /** Counts connections: a command during which it changed may have run twice. */
  #connections = 0;
  readonly #inFlight = new Set<Promise<unknown>>();

  constructor(options: RedisLockStoreOptions) {
    this.#options = options;
    this.#client = options.client;
    this.#clock = options.clock;
    this.#keys = new RedisKeys(options.keyPrefix);
    this.#settings = [
      this.#keys.inboxPrefix,
      acceptanceLeaseMs(options.leaseMs),
      options.fenceKeepMs ?? FENCE_KEEP_MS,
    ];
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
    const handshake = new RedisHandshake(this.#client, this.#clock, this.#keys, this.processId);
    this.#inbox = this.#inboxOf(listener, handshake);
    try {
      const evictionPolicy = await handshake.prove();
      await this.directory.present();
      if (evictionPolicy !== undefined) listener.mayEvict(evictionPolicy);
    } catch (error) {
      await this.close();
      throw error;
    }
    this.#listener = listener;
    this.#client.on('ready', this.#onReady);
  }

  /** Waits for the commands on their way, each within its time limit: what they got must be given back. */
  async close(): Promise<void> {
    this.#client.off('ready', this.#onReady);
    while (this.#inFlight.size > 0) {
      await Promise.allSettled(this.#inFlight);
      await immediate(); // what their replies set in motion
    }
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
      const args = [...this.#settings, leaseMs, ...tokens];
      const others = names.length > 3 ? ` and ${names.length - 3} more` : '';
      const action = `acquire ${quotedList(names.slice(0, 3))}${others}`;
      return readTogetherReply(await this.#send(acquireTogetherScript, keys, args, action), tokens);
    } catch (error) {
      return commands.map(() => unknownBecause(error));
    }
  }

  async release({ name, token, used, keepMs = 0 }: ReleaseCommand): Promise<ReleaseReply> {
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
      const all = [...this.#settings, ...args];
      return readRenewReply(
        await this.#send(renewScript, keys, all, `renew ${commands.length} leases`),
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
      const all = [...this.#settings, ...args];
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
    const command = withinLimit(this.#clock, this.commandTimeoutMs, action, (isWanted) =>
      completed(() => script.run(this.#client, keys, args, isWanted), isWanted),
    ).finally(() => this.#inFlight.delete(command));
    this.#inFlight.add(command);
    return command;
  }

  readonly #onReady = (): void => {
    this.#connections++;
    this.#listener?.reconnected();
    void this.directory.present().catch(() => {}); // the server may be another one; only people miss it
  };

  #inboxOf(listener: StoreListener, handshake: RedisHandshake): RedisInbox {
    return new RedisInbox(
      this.#client,
      {
        channel: this.#keys.inboxPrefix + this.processId,
        clock: this.#clock,
        timeLimitMs: this.commandTimeoutMs,
        pingEveryMs: safetyIntervalMs(this.#options.leaseMs),
      },
      {
        subscribed: () => {
          handshake.subscribed();
          this.#listener?.reconnected();
        },
        lost: () => this.#listener?.inboxLost(),
        failed: (error) => handshake.failed(error),
        message: (text) => {
          const message = parseInboxMessage(text);
          if (message === 'probe') handshake.probed();
          else if (message !== undefined) listener.message(message);
        },
      },
    );
  }
}

function unknownBecause(error: unknown): Unknown {
  if (error instanceof LockStoreError && error.message.includes('WRONGTYPE')) {
    const message = `${error.message}; the key in Redis is not a string, so it was written by something else, such as a lock library that keeps a hash: use another name or keyPrefix`;
    return {
      kind: 'unknown',
      cause: new LockStoreError(message, undefined, { cause: error }),
      isLasting: true,
    };
  }
  const cause =
    error instanceof LockStoreError
      ? error
      : new LockStoreError(`Cannot read the answer of Redis: ${String(error)}`, undefined, {
          cause: error,
        });
  return { kind: 'unknown', cause };
}
