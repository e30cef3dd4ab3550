import type { Clock } from '../core/clock.js';
import { LockConfigError, LockStoreError } from '../core/lock.errors.js';
import type { RedisClient } from './redis-client.js';
import type { RedisKeys } from './redis-keys.js';
import { probeScript } from './scripts/probe.lua.js';
import { withinLimit } from './time-limit.js';

/** How long the start of the application may wait for Redis, in milliseconds. */
const LIMIT_MS = 10_000;

/** Oldest version whose scripts, ACLs and PUBSUB behave as the protocol needs. */
const OLDEST_REDIS = [6, 2] as const;

/** Every command that is sent, by us and by our scripts. */
const COMMANDS =
  'eval evalsha subscribe publish pubsub ping info time get set del scan exists pexpire pttl zadd zrem zscore zcard zrange zrevrange';

const LACKS_RIGHTS = /NOPERM|No permission|can't run this command/i;
const REFUSES_USER = /WRONGPASS|NOAUTH/i;

/**
 * Before anything is locked: proves that the server answers, that its version and the user's rights are enough, and
 * that what a script publishes arrives in our inbox, all of it with the prefixes that will be used.
 */
export class RedisHandshake {
  readonly #client: RedisClient;
  readonly #clock: Clock;
  readonly #keys: RedisKeys;
  readonly #processId: string;
  readonly #until: number;
  readonly #refused: Promise<never>;
  #refuse!: (error: unknown) => void;
  readonly #subscription: Promise<void>;
  readonly #probe: Promise<void>;
  /** The inbox is subscribed. */
  subscribed!: () => void;
  /** What the probe published has arrived. */
  probed!: () => void;
  #lastError: unknown;

  constructor(client: RedisClient, clock: Clock, keys: RedisKeys, processId: string) {
    this.#client = client;
    this.#clock = clock;
    this.#keys = keys;
    this.#processId = processId;
    this.#until = clock.now() + LIMIT_MS;
    this.#subscription = new Promise((resolve) => (this.subscribed = resolve));
    this.#probe = new Promise((resolve) => (this.probed = resolve));
    this.#refused = new Promise((_, reject) => (this.#refuse = reject));
    this.#refused.catch(() => {}); // whoever waits is told; nobody may be waiting
  }

  /** What went wrong on the inbox connection; a refusal ends the handshake, anything else may pass. */
  failed(error: unknown): void {
    this.#lastError = error;
    if (isRefusal(error)) this.#refuse(error);
  }

  /**
   * @returns the eviction policy, if the server may drop keys when its memory is full
   * @throws LockConfigError if Redis refuses what is needed · LockStoreError if it does not answer
   */
  async prove(): Promise<string | undefined> {
    await this.#step('connect', () => this.#ready());
    await this.#step('subscribe to the inbox', () => this.#subscription);
    await this.#step('prove the scripts', () =>
      probeScript.run(
        this.#client,
        this.#keys.of(`probe:${this.#processId}`),
        [this.#keys.inboxPrefix + this.#processId, 'probe'],
        () => true,
      ),
    );
    await this.#step('receive a message in the inbox', () => this.#probe);
    const info = await this.#step('read the version', () =>
      this.#client.info('all').catch((error: unknown) => {
        if (isRefusal(error)) return ''; // not allowed to know; the probe has passed
        throw error;
      }),
    );
    assertVersion(info);
    const [, maxMemory] = /^maxmemory:(\d+)/m.exec(info) ?? [];
    const [, policy] = /^maxmemory_policy:(\S+)/m.exec(info) ?? [];
    return maxMemory === '0' || policy === 'noeviction' ? undefined : policy;
  }

  /** With `enableOfflineQueue: false` commands fail until the client is connected; with `lazyConnect` it never is. */
  async #ready(): Promise<void> {
    const client = this.#client;
    if (client.status === 'ready') return;
    if (client.status === 'end') throw new Error('the client in `connection` was closed');
    await new Promise<void>((resolve, reject) => {
      client.on('ready', resolve);
      if (client.status === 'wait') client.connect().catch(reject);
    });
  }

  async #step<T>(action: string, step: () => Promise<T>): Promise<T> {
    const leftMs = Math.max(0, Math.ceil(this.#until - this.#clock.now()));
    try {
      return await withinLimit(this.#clock, leftMs, action, () =>
        Promise.race([step(), this.#refused]),
      );
    } catch (error) {
      throw this.#explained(action, error instanceof Error && error.cause ? error.cause : error);
    }
  }

  #explained(action: string, error: unknown): Error {
    const cause = isRefusal(error) ? error : (this.#lastError ?? error);
    const reason = cause instanceof Error ? cause.message : String(cause);
    if (LACKS_RIGHTS.test(reason)) {
      const { prefix, inboxPrefix } = this.#keys;
      const keys = `~${this.#client.options.keyPrefix ?? ''}${prefix}*`;
      const commands = COMMANDS.replace(/\w+/g, '+$&');
      return new LockConfigError(
        `Cannot ${action}: the Redis user lacks rights: ${reason}; it needs these keys, channels and commands: ACL SETUSER <user> ${keys} &${inboxPrefix}* ${commands}`,
        undefined,
        { cause },
      );
    }
    if (REFUSES_USER.test(reason)) {
      return new LockConfigError(
        `Cannot ${action}: Redis refuses user or password: ${reason}; check them in 'connection'`,
        undefined,
        { cause },
      );
    }
    return new LockStoreError(
      `Cannot ${action} within ${LIMIT_MS} ms: ${reason}; check the address in 'connection', and that Redis runs`,
      undefined,
      { cause },
    );
  }
}

function isRefusal(error: unknown): boolean {
  return (
    error instanceof Error && (LACKS_RIGHTS.test(error.message) || REFUSES_USER.test(error.message))
  );
}

function assertVersion(info: string): void {
  const [, major, minor] = /redis_version:(\d+)\.(\d+)/.exec(info) ?? [];
  if (major === undefined || minor === undefined) return;
  const [oldestMajor, oldestMinor] = OLDEST_REDIS;
  if (+major > oldestMajor || (+major === oldestMajor && +minor >= oldestMinor)) return;
  throw new LockConfigError(
    `Redis ${major}.${minor} is too old: nestjs-locked needs ${OLDEST_REDIS.join('.')} or newer`,
  );
}
