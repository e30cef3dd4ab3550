import { LockConfigError, LockStoreError } from '../../core/lock.errors.js';
import type {
  AcquireCommand,
  AcquireReply,
  LeaveCommand,
  LeaveReply,
  RecheckCommand,
  RecheckReply,
  RequeueCommand,
  RequeueReply,
  StoreListener,
  TakeBackCommand,
  TakeBackReply,
} from '../../core/store/lock-store.js';
import { isCluster } from '../connection/server/redis-cluster.js';
import { RedisLockStore, type RedisLockStoreOptions } from '../redis-lock-store.js';
import { lacksRights } from '../scripts/reply-error.js';
import { RedissonKeys } from './redisson-keys.js';
import { RedissonLockInspector } from './redisson-lock-inspector.js';
import { channelOf, HANDOVER_PAUSE_MS } from './redisson-protocol.lua.js';
import { RedissonScripts } from './redisson-scripts.js';

const LAYOUT = "layout: 'redisson'";

/** The wait of this process for one key. */
interface Wait {
  readonly key: string;
  readonly channel: string;
  /** The token that waits, and how long its lease is to be. A re-check brings another one. */
  token: string;
  leaseMs: number;
  /** How many commands are under way that take the key if it is free. */
  tries: number;
  /** Whether the key may have become free after the latest of them was carried out. */
  isWoken: boolean;
}

/**
 * Keeps leases as the `RLock` of Redisson does, so that Java and this process exclude each other: one server, with or
 * without Sentinel. Whoever waits subscribes to the channel of its key, tries once more when the subscription stands,
 * and then whenever something is published there. A key that it gets then is announced to the engine like one that was
 * handed over. The engine's own re-checks cover lost messages and leases that have run out.
 */
export class RedissonLockStore extends RedisLockStore {
  readonly onlyExclusive = LAYOUT;
  /** A field is a process and a number, as that of a thread of Redisson. */
  readonly keepsLabels = false;
  readonly #options: RedisLockStoreOptions;
  readonly #connectionPrefix: string;
  readonly #keys: RedissonKeys;
  /** By channel. */
  readonly #waits = new Map<string, Wait>();
  #listener: StoreListener | undefined;

  /** @throws LockConfigError if locks cannot be kept in this way there */
  constructor(options: RedisLockStoreOptions) {
    const { client, keyPrefix } = options;
    assertSuitable(options);
    const connectionPrefix = client.options.keyPrefix ?? '';
    const keys = new RedissonKeys(keyPrefix);
    const scripts = new RedissonScripts({
      inCluster: false,
      inboxPrefix: keys.inboxPrefix,
      connectionPrefix,
      acceptMs: 0,
      fenceKeepMs: 0,
    });
    super({ ...options, layout: { keys, scripts, Inspector: RedissonLockInspector } });
    this.#options = options;
    this.#connectionPrefix = connectionPrefix;
    this.#keys = keys;
  }

  override open(listener: StoreListener): Promise<void> {
    this.#listener = listener;
    return super.open(listener);
  }

  /** Proves that releases are heard, which have other channels than our messages. */
  protected override async ready(): Promise<void> {
    if (this.#keys.areApart) throw unsuitable('something in front of several servers');
    const channel = channelOf(`${this.#connectionPrefix}${this.#keys.prefix}probe`);
    try {
      await this.servers.watch?.(channel);
      await this.servers.unwatch?.(channel);
    } catch (error) {
      if (!(error instanceof LockStoreError) || !lacksRights(error.cause)) throw error;
      throw new LockConfigError(
        `Cannot subscribe to the releases of locks: the Redis user lacks rights: ${error.message}; it needs +unsubscribe and ${this.#keys.rights(this.#connectionPrefix)}`,
        undefined,
        { cause: error.cause },
      );
    }
  }

  override close(limitMs?: number): Promise<void> {
    this.#waits.clear();
    return super.close(limitMs);
  }

  override listensFor(key: string): boolean {
    const wait = this.#waitFor(key);
    return (
      super.listensFor(key) && (wait === undefined || this.servers.hears?.(wait.channel) === true)
    );
  }

  override async acquire(command: AcquireCommand): Promise<AcquireReply> {
    const reply = await super.acquire(command);
    if (reply.kind === 'queued') this.#enter(command.key, command.token, command.leaseMs);
    return reply;
  }

  override async requeue(command: RequeueCommand): Promise<RequeueReply> {
    const reply = await super.requeue(command);
    if (reply.kind === 'queued') {
      const { key, newToken, leaseMs } = command;
      this.#enter(key, newToken, leaseMs, reply.wasLost === true ? 0 : HANDOVER_PAUSE_MS);
    }
    return reply;
  }

  override async recheck(command: RecheckCommand): Promise<RecheckReply> {
    const wait = this.#waitOf(command.key, command.token);
    if (wait === undefined) return super.recheck(command);
    wait.tries++;
    wait.isWoken = false;
    const reply = await super.recheck(command);
    wait.tries--;
    if (this.#waitOf(command.key, command.token) !== wait) return reply;
    if (reply.kind === 'queued') {
      wait.token = command.newToken;
      this.#tryNow(wait);
    } else if (reply.kind === 'granted') {
      this.#leave(wait);
    }
    return reply;
  }

  override leave(command: LeaveCommand): Promise<LeaveReply> {
    this.#forget(command);
    return super.leave(command);
  }

  override takeBack(commands: readonly TakeBackCommand[]): readonly Promise<TakeBackReply>[] {
    commands.forEach((command) => this.#forget(command));
    return super.takeBack(commands);
  }

  /** Called for any message on a channel: also Redisson's own waiters do not ask what it says. */
  protected override published(channel: string): void {
    const wait = this.#waits.get(channel);
    if (wait === undefined) return;
    wait.isWoken = true;
    this.#tryNow(wait);
  }

  // ---- waiting ----------------------------------------------------------------------------------------------

  #channelOf(key: string): string {
    return channelOf(this.#connectionPrefix + key);
  }

  #waitFor(key: string): Wait | undefined {
    return this.#waits.size === 0 ? undefined : this.#waits.get(this.#channelOf(key));
  }

  #waitOf(key: string, ...tokens: (string | undefined)[]): Wait | undefined {
    const wait = this.#waitFor(key);
    return wait !== undefined && tokens.includes(wait.token) ? wait : undefined;
  }

  /** @param pauseMs how long others may take the key first, after a message that only they have heard */
  #enter(key: string, token: string, leaseMs: number, pauseMs = 0): void {
    const channel = this.#channelOf(key);
    const wait: Wait = { key, channel, token, leaseMs, tries: 0, isWoken: false };
    this.#waits.set(channel, wait);
    const wake = (): void => {
      if (this.#waits.get(channel) === wait) this.published(channel);
    };
    const stands = (): void => {
      if (pauseMs === 0) wake();
      else this.#options.clock.after(pauseMs, wake);
    };
    // Without a subscription, the key is polled.
    this.servers.watch?.(channel).then(stands, () => {});
  }

  #tryNow(wait: Wait): void {
    if (!wait.isWoken || wait.tries > 0 || this.#waits.get(wait.channel) !== wait) return;
    wait.isWoken = false;
    wait.tries++;
    void this.#try(wait);
  }

  /**
   * Asks for the key with the token that waits. A grant under this token is found by whatever command ends the wait,
   * even if the answer does not come.
   */
  async #try(wait: Wait): Promise<void> {
    const { key, token, leaseMs } = wait;
    const reply = await super.recheck({ key, token, newToken: token, leaseMs, position: 0 });
    wait.tries--;
    if (this.#waitOf(key, token) !== wait) return;
    if (reply.kind !== 'granted') return this.#tryNow(wait);
    this.#leave(wait);
    this.#listener?.message({ ...reply, kind: 'grant', key, acceptMs: leaseMs });
  }

  #forget({ key, tokens }: Pick<TakeBackCommand, 'key' | 'tokens'>): void {
    const wait = this.#waitOf(key, ...tokens);
    if (wait !== undefined) this.#leave(wait);
  }

  #leave({ channel }: Wait): void {
    this.#waits.delete(channel);
    this.servers.unwatch?.(channel).catch(() => {}); // what still arrives is ignored
  }
}

function assertSuitable({ client, replicas, renewFrom }: RedisLockStoreOptions): void {
  if (isCluster(client)) throw unsuitable('a Redis Cluster');
  if (replicas !== undefined) throw unsuitable('waitReplicas');
  if (renewFrom === 'worker') throw unsuitable("renewFrom: 'worker'");
}

const REASONS = {
  'a Redis Cluster':
    'Redisson announces releases there with SPUBLISH or PUBLISH, depending on the servers that it has seen, and the locks could not hear both',
  waitReplicas: 'Redisson decides for itself which replicas must have a lock',
  "renewFrom: 'worker'": 'the worker thread renews only locks of our own layout',
  'something in front of several servers':
    'the releases of a lock are heard only on the server that has it',
} as const;

function unsuitable(what: keyof typeof REASONS): LockConfigError {
  return new LockConfigError(
    `${LAYOUT} cannot be used with ${what}: ${REASONS[what]}; use one server, with or without Sentinel, and leave the other options out`,
  );
}
