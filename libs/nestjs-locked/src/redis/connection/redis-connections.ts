import { LockStoreError } from '../../core/lock.errors.js';
import { isOfSeveralSlots, isRefusal, lacksRights } from '../scripts/reply-error.js';
import type { CommandRunner, LockServers, LockServersListener } from './lock-servers.js';
import { ConnectionProof } from './proof/connection-proof.js';
import { InboxProof } from './proof/inbox-proof.js';
import { neededRights } from './proof/needed-rights.js';
import { RedisHandshake } from './proof/redis-handshake.js';
import { START_REPLICAS } from './proof/remedy-of.js';
import { ReplicaProof } from './proof/replica-proof.js';
import { askServer } from './proof/server-answers.js';
import type { ClusterNodeTerms, RedisConnectionsOptions } from './redis-connections.options.js';
import { describedServer } from './server/described-server.js';
import type { RedisClient, RedisConnection } from './server/redis-client.js';
import type { RequiredReplicas } from './server/required-replicas.js';
import type { ServerInfo } from './server/server-info.js';
import { CommandConnection } from './traffic/command-connection.js';
import { parseInboxMessage } from './traffic/inbox-message.js';
import type { CommandOutcome, RedisCommand } from './traffic/redis-command.js';
import { RedisInbox } from './traffic/redis-inbox.js';

/** An inbox restored within this time is not reported; a longer loss is re-checked at this interval. */
const SILENCE_MS = 500;

/** Keys of this many hash tags are hardly all on the same one of several servers. */
const TRIED_TOGETHER = 16;

const PING: RedisCommand = { action: 'reach Redis', keys: [], send: (redis) => redis.ping() };

/**
 * The two connections to one server, both our own: one for commands, one for the inbox. Whenever one of them is new,
 * both are proved to lead to the same server. They may not if an address has moved and only one of them has followed.
 * Then the older one is replaced, because waiters with an inbox elsewhere would be skipped.
 */
export class RedisConnections implements LockServers {
  readonly commands: CommandConnection;
  readonly #client: RedisClient;
  readonly #options: RedisConnectionsOptions;
  readonly #node: ClusterNodeTerms | undefined;
  /** The address of the cluster node; '' for a single server. */
  readonly #address: string;
  readonly #messages: InboxProof;
  readonly #proof: ConnectionProof;
  #handshake: RedisHandshake | undefined;
  #inbox: RedisInbox | undefined;
  #listener: LockServersListener | undefined;
  #server: ServerInfo | undefined;
  #cancelSilence: () => void = () => {};
  #replicaProof: ReplicaProof | undefined;

  /** @param client both connections are made from its options */
  constructor(client: RedisClient, options: RedisConnectionsOptions, node?: ClusterNodeTerms) {
    const { clock, keys, processId, probe, timeLimitMs } = options;
    const name = client.options.connectionName ?? `${keys.prefix}commands:${processId}`;
    const commands = new CommandConnection({
      ...options,
      name,
      check: (redis) => this.#check(redis),
      inCluster: node !== undefined,
    });
    const probedKey = node?.someKey ?? (() => `probe:${processId}`);
    this.#client = client;
    this.#options = options;
    this.#node = node;
    this.#address = node?.address ?? '';
    this.commands = commands;
    this.#messages = new InboxProof({
      commands,
      clock,
      keys,
      processId,
      script: probe,
      probedKey,
      timeLimitMs,
    });
    this.#proof = new ConnectionProof(
      {
        clock,
        commands,
        inbox: () => this.#inbox,
        proof: this.#messages,
        server: describedServer(client),
        rights: () => this.#rights,
      },
      {
        proved: () => this.#handshake?.proved(),
        failed: (error) => this.#handshake?.failed(error),
        rightsLost: (cause) => this.#listener?.rightsLost(cause, this.#address),
        rightsBack: () => this.#listener?.rightsBack(this.#address),
      },
    );
  }

  get #rights(): string {
    const { keys, replicas } = this.#options;
    return neededRights(this.#client, keys, { inCluster: this.#node !== undefined, replicas });
  }

  get address(): string {
    return describedServer(this.#client);
  }

  nodeOf(): string {
    return this.#address;
  }

  listensFor(): boolean {
    return this.#inbox?.ready ?? false;
  }

  get isReady(): boolean {
    return this.commands.isReady;
  }

  watch(channel: string): Promise<void> {
    return this.#inbox?.watch(channel) ?? Promise.reject(new LockStoreError('it is not open'));
  }

  unwatch(channel: string): Promise<void> {
    return this.#inbox?.unwatch(channel) ?? Promise.resolve();
  }

  hears(channel: string): boolean {
    return this.#inbox?.hears(channel) ?? false;
  }

  run<T>(command: RedisCommand, read: (outcome: CommandOutcome) => T, dueAt?: number): Promise<T> {
    const proveAndRead = (outcome: CommandOutcome): T => {
      if (outcome.kind === 'failed') this.#proof.commandFailed(outcome.cause.cause);
      return read(outcome);
    };
    return this.commands.run(command, proveAndRead, dueAt);
  }

  each(): Promise<readonly CommandRunner[]> {
    return Promise.resolve([this.commands]);
  }

  idle(): Promise<void> {
    return this.commands.idle();
  }

  async open(
    listener: LockServersListener,
    limitMs: number,
  ): Promise<ReadonlyMap<string, ServerInfo>> {
    const { clock, replicas } = this.#options;
    const handshake = new RedisHandshake({
      clock,
      server: describedServer(this.#client),
      rights: () => this.#rights,
      usesTls: Boolean(this.#client.options.tls),
      inCluster: this.#node !== undefined,
      limitMs,
      awaited: (cause) => listener.awaited(cause),
    });
    this.#handshake = handshake;
    this.#openCommands(handshake);
    this.#openInbox(handshake, listener);
    const info = await handshake.step('connect', handshake.isConnected);
    await handshake.step('subscribe to the inbox', handshake.isSubscribed);
    await handshake.step('receive a message in the inbox', handshake.isProved);
    await handshake.step('use the rights that are needed later', this.#tryRights(handshake));
    // A later master may have no replicas yet. No lease counts there, but held locks must be released.
    if (replicas !== undefined && limitMs < Infinity)
      await this.#proveReplicas(handshake, replicas);
    this.#listener = listener;
    return new Map([[this.#address, this.#server ?? info]]);
  }

  /** @param reason the reason with which unfinished commands fail */
  close(reason?: string): void {
    this.#handshake?.closed();
    this.#listener = undefined;
    this.#proof.close();
    this.#cancelSilence();
    this.#replicaProof?.close();
    this.#messages.close();
    this.commands.close(reason);
    this.#inbox?.close();
    this.#inbox = undefined;
  }

  /**
   * Sends the commands not otherwise used at the start, to detect a missing right now, and not when a slot moves or the
   * scripts are forgotten.
   */
  async #tryRights(handshake: RedisHandshake): Promise<void> {
    const prefix = this.#options.keys.prefix;
    const command: RedisCommand = {
      action: 'use the rights that are needed later',
      keys: [],
      send: (redis) => {
        // ASKING applies to the next command, so it must not be the last one.
        const asking = this.#node === undefined ? [] : [redis.asking()];
        const others = [redis.ping(), this.#tryTogether(redis)];
        const scan = redis.scan('0', 'MATCH', prefix, 'COUNT', 1);
        return Promise.all([...asking, ...others, scan]);
      },
    };
    const outcome = await this.commands.run(command, (ended) => ended);
    // Any other failure may pass: everything needed now has been proved.
    if (outcome.kind === 'failed') handshake.failed(outcome.cause.cause ?? outcome.cause);
  }

  /** Something in front of several servers, as which it does not present itself, may refuse keys of different ones. */
  async #tryTogether(redis: RedisConnection): Promise<unknown> {
    const { keys } = this.#options;
    const locks = Array.from({ length: TRIED_TOGETHER }, (_, i) => keys.probedOf(`probe:${i}`)[0]);
    const tried = keys.areApart ? [] : [keys.sharedFence, ...locks];
    try {
      return await redis.eval('return 1', tried.length, ...tried);
    } catch (error) {
      if (!isOfSeveralSlots(error)) throw error;
      keys.setApart();
      return undefined;
    }
  }

  #proveReplicas(handshake: RedisHandshake, replicas: RequiredReplicas): Promise<void> {
    const { commands } = this;
    const { clock, timeLimitMs } = this.#options;
    const proof = new ReplicaProof({ commands, clock, replicas, timeLimitMs });
    this.#replicaProof = proof;
    const isProved = proof.run((error) => handshake.failed(error));
    return handshake.step('write to the replicas', isProved, START_REPLICAS);
  }

  #openCommands(handshake: RedisHandshake): void {
    this.commands.open(this.#client, {
      admitted: (server) => {
        this.#server = server;
        handshake.connected(server);
        if (this.#inbox !== undefined) this.#proof.prove(this.#inbox);
        this.#listener?.connected(server, this.#address);
      },
      failed: (error) => handshake.failed(error),
      lost: (cause: LockStoreError) => this.#listener?.lost(cause, this.#address),
      back: () => this.#listener?.back(this.#address),
      replaced: (cause) => this.#listener?.replaced(cause, this.#address),
    });
  }

  #openInbox(handshake: RedisHandshake, listener: LockServersListener): void {
    const { clock, timeLimitMs, pingEveryMs, keys, processId } = this.#options;
    const name = keys.inboxPrefix + processId;
    const channel = this.#channel;
    let commandsBefore = 0;
    this.#inbox = new RedisInbox(
      this.#client,
      { name, channel, clock, timeLimitMs, pingEveryMs },
      {
        subscribed: () => {
          handshake.subscribed();
          this.#proof.prove(this.commands);
          this.#listener?.inboxBack(this.#address);
          this.#listener?.subscribed(this.#address);
        },
        lost: (cause) => {
          commandsBefore = this.commands.connections;
          this.#listener?.inboxLost(cause, this.#address);
          this.#watchSilence();
        },
        replaced: (cause) => {
          // If commands failed too, it was not just this connection that was dropped.
          const { isAnswering, connections } = this.commands;
          if (isAnswering && connections === commandsBefore)
            this.#listener?.replaced(cause, this.#address);
        },
        failed: (error) => handshake.failed(error),
        published: (watched) => listener.published?.(watched),
        message: (text) => {
          const message = parseInboxMessage(text);
          if (message?.kind === 'probe') this.#messages.arrived(message.id);
          else if (message !== undefined) listener.message(message);
        },
      },
    );
  }

  /** Reports silence only if commands are answered; otherwise Redis is away, which is already reported. */
  #watchSilence(): void {
    this.#cancelSilence();
    this.#cancelSilence = this.#options.clock.after(SILENCE_MS, () => {
      if (this.#inbox === undefined || this.#inbox.ready) return;
      if (!this.commands.isReady) return this.#watchSilence();
      void this.commands.run(PING, (outcome) => {
        const inbox = this.#inbox;
        if (inbox === undefined || inbox.ready) return;
        const isAnswered = outcome.kind === 'answered' || lacksRights(outcome.cause.cause);
        if (isAnswered) this.#listener?.inboxFails(inbox.loss, this.#address);
        this.#watchSilence();
      });
    });
  }

  /** Each node of a cluster has a separate channel for us, because messages published on one node reach all. */
  readonly #channel = async (redis: RedisConnection): Promise<string> => {
    const { keys, processId } = this.#options;
    const name = keys.inboxPrefix + processId;
    return this.#node === undefined ? name : `${name}@${String(await redis.cluster('MYID'))}`;
  };

  /**
   * Checks on the connection for commands whether the server is the same and still has our inbox. A proxy may have
   * switched servers, and a reset cluster node has another id, without breaking any connection. The scripts would then
   * treat waiters of this process as dead.
   */
  async #check(redis: RedisConnection): Promise<void> {
    const { commands } = this;
    const inbox = this.#inbox;
    const channel = inbox?.ready === true ? inbox.channel : undefined;
    const [commandsBefore, inboxBefore] = [commands.connections, inbox?.connections];
    const answers = await askServer(redis, this.#channel, channel);
    if (commands.connections !== commandsBefore || !commands.isReady) return;
    const before = this.#server?.runId;
    const isOther = before !== undefined && answers.runId !== undefined && answers.runId !== before;
    if (isOther || answers.refusesUser)
      return commands.reconnect(new Error('another server has taken its place'));
    if (inbox?.ready === false) return this.#proof.beat(isRefusal(inbox.loss.cause));
    if (inbox?.ready !== true || inbox.connections !== inboxBefore || channel === undefined) return;
    const isElsewhere = answers.channel !== undefined && answers.channel !== channel;
    if (isElsewhere || answers.listeners === 0) inbox.reconnect();
    else this.#proof.beat(answers.refusesCount);
  }
}
