import { LockStoreError } from '../../core/lock.errors.js';
import type {
  CommandRunner,
  LockServers,
  LockServersListener,
} from '../connection/lock-servers.js';
import { neededRights } from '../connection/proof/needed-rights.js';
import { RedisHandshake } from '../connection/proof/redis-handshake.js';
import type { RedisConnectionsOptions } from '../connection/redis-connections.options.js';
import { describedCluster } from '../connection/server/described-server.js';
import { reasonOf } from '../connection/server/reason-of.js';
import type { RedisCluster } from '../connection/server/redis-cluster.js';
import type { ServerInfo } from '../connection/server/server-info.js';
import {
  type CommandOutcome,
  notOpen,
  type RedisCommand,
} from '../connection/traffic/redis-command.js';
import { slotIn } from './cluster-address.js';
import { ClusterCommands } from './cluster-commands.js';
import { ClusterNodes } from './cluster-nodes.js';
import { RefusedSlots, slotOutagesOf } from './refused-slots.js';

/** The masters of a Redis Cluster as the servers of a lock service, with two of our own connections to each. */
export class ClusterConnections implements LockServers {
  readonly #client: RedisCluster;
  readonly #options: RedisConnectionsOptions;
  #nodes: ClusterNodes | undefined;
  #commands: ClusterCommands | undefined;
  #refused: RefusedSlots | undefined;
  #handshake: RedisHandshake | undefined;

  constructor(client: RedisCluster, options: RedisConnectionsOptions) {
    this.#client = client;
    this.#options = options;
  }

  async open(
    listener: LockServersListener,
    limitMs: number,
  ): Promise<ReadonlyMap<string, ServerInfo>> {
    const { clock, keys, timeLimitMs, replicas } = this.#options;
    const { keyPrefix, redisOptions } = this.#client.options;
    const nodes = new ClusterNodes(this.#client, this.#options, listener);
    const handshake = new RedisHandshake({
      clock,
      server: this.address,
      rights: () => neededRights({ options: { keyPrefix } }, keys, { inCluster: true, replicas }),
      usesTls: redisOptions?.tls !== undefined,
      inCluster: true,
      limitMs,
      awaited: (cause) => listener.awaited(cause),
    });
    this.#handshake = handshake;
    this.#nodes = nodes;
    // A command that no master carried out in time may begin the outage of a slot, which ends by a command of its own.
    const commands = new ClusterCommands(nodes, clock, timeLimitMs, (command, failure) =>
      refused.failed(command, failure),
    );
    const send = (command: RedisCommand): Promise<CommandOutcome> => commands.attempt(command);
    const redisKeysOf = (key: string): readonly string[] => keys.of(key);
    const refused = new RefusedSlots({ nodes, redisKeysOf, clock, listener, send });
    this.#refused = refused;
    this.#commands = commands;
    return nodes.open(handshake, limitMs);
  }

  get address(): string {
    return describedCluster(this.#client);
  }

  nodeOf(key: string): string {
    return this.#nodes?.ofSlot(this.slotOf(key))?.address ?? '';
  }

  /** A slot that no master serves is an outage of its own, and so is a cluster that is down as a whole. */
  outagesOf(key: string): readonly string[] {
    return [this.nodeOf(key), ...slotOutagesOf(this.slotOf(key))];
  }

  readonly slotOf = (key: string): number => slotIn(this.#client, this.#options.keys.of(key)[0]);

  /** False while no master of the slot is known: whoever waits for the key then looks for itself. */
  listensFor(key: string): boolean {
    return this.#nodes?.ofSlot(this.slotOf(key))?.connections.listensFor() ?? false;
  }

  get isReady(): boolean {
    return this.#nodes?.all.every(({ connections }) => connections.isReady) ?? false;
  }

  run<T>(command: RedisCommand, read: (outcome: CommandOutcome) => T): Promise<T> {
    return this.#commands?.run(command, read) ?? Promise.resolve(read(notOpen(command)));
  }

  /** @throws LockStoreError if the masters cannot be determined */
  async each(): Promise<readonly CommandRunner[]> {
    const nodes = this.#nodes;
    if (nodes === undefined) return [];
    await nodes.look().catch((cause: unknown) => {
      const message = `Cannot find the masters of the cluster: ${reasonOf(cause)}`;
      throw new LockStoreError(message, undefined, { cause });
    });
    return nodes.all.map(({ connections }) => connections);
  }

  async idle(): Promise<void> {
    await this.#commands?.idle();
  }

  close(): void {
    this.#handshake?.closed();
    this.#refused?.close();
    this.#nodes?.close();
  }
}
