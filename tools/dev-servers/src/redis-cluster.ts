import { askRedis, orderRedis } from './ask-redis.js';
import { type ClusterNode, clusterNodes } from './cluster-node.js';
import { freeClusterPort } from './free-port.js';
import { joinCluster } from './join-cluster.js';
import { RedisServer } from './redis-server.js';
import { startAll } from './start-all.js';
import { startOnFreePort } from './start-on-free-port.js';
import { until } from './until.js';

export interface RedisClusterOptions {
  /** Default: 1. */
  readonly replicasPerMaster?: number;
  /** A node that has not answered the others for this long is considered down. Default: 2,000. */
  readonly nodeTimeoutMs?: number;
  /** Whether all slots are refused while nobody serves one of them. Default: that of the server, which is true. */
  readonly requireFullCoverage?: boolean;
  /** Further arguments of every redis-server. They override ours. */
  readonly args?: readonly string[];
}

const MASTERS = 3;
const MOVE_LIMIT_MS = 5_000;
const ORDER_AGAIN_MS = 6_000;
/** Who is in the cluster, and which slots are whose: what a node has to know when it comes back. */
const NODES_FILE = 'nodes.conf';

/** A node that answers, and what it says about itself. */
interface Claim {
  readonly server: RedisServer;
  readonly self: ClusterNode;
}

/**
 * A Redis Cluster of three masters and their replicas on 127.0.0.1. A node that is killed and restarted comes back
 * without data, as the member that it was.
 */
export class RedisCluster {
  readonly #ids: ReadonlyMap<RedisServer, string>;

  private constructor(
    /** All nodes; the first three were the masters at the start. */
    readonly nodes: readonly RedisServer[],
    ids: readonly string[],
  ) {
    this.#ids = new Map(nodes.map((server, index) => [server, ids[index] as string]));
  }

  /**
   * Starts the nodes, and waits until all of them agree and every replica has its master's data.
   *
   * @throws Error if there is no redis-server, or one does not start
   */
  static async start(options: RedisClusterOptions = {}): Promise<RedisCluster> {
    const { replicasPerMaster = 1 } = options;
    const nodes = await startAll(
      Array.from({ length: MASTERS * (1 + replicasPerMaster) }, () => startNode(options)),
    );
    try {
      await joinCluster(
        nodes.slice(0, MASTERS).map(({ port }, index) => ({
          masterPort: port,
          replicaPorts: nodes
            .filter((_, place) => place >= MASTERS && place % MASTERS === index)
            .map((replica) => replica.port),
        })),
      );
      return new RedisCluster(nodes, await Promise.all(nodes.map(({ port }) => ownId(port))));
    } catch (error) {
      await Promise.all(nodes.map((node) => node.stop()));
      throw error;
    }
  }

  /** Addresses of all nodes, as clients take them. */
  get startupNodes(): { readonly host: string; readonly port: number }[] {
    return this.nodes.map(({ port }) => ({ host: '127.0.0.1', port }));
  }

  /** The slot of a key. */
  async slotOf(key: string): Promise<number> {
    const answers = await Promise.all(
      this.nodes.map(({ port }) => askRedis(port, ['CLUSTER', 'KEYSLOT', key])),
    );
    const answer = answers.find((text) => text.startsWith(':'));
    if (answer === undefined) throw new Error('No node of the cluster answers');
    return Number(answer.slice(1));
  }

  /** The name by which the nodes know each other: what CLUSTER MYID answers. It stays over a restart. */
  nodeIdOf(server: RedisServer): string {
    const id = this.#ids.get(server);
    if (id === undefined) throw new Error(`Port ${server.port} is no node of this cluster`);
    return id;
  }

  /**
   * The master that serves a slot. If two say so, as after a failover that the old master has not heard of, the later
   * one is right.
   *
   * @throws Error if none does, as between the end of a master and the promotion of its replica
   */
  async masterOf(slot: number): Promise<RedisServer> {
    const owner = ownerOf(slot, await this.#claims());
    if (owner === undefined) throw new Error(`No master serves slot ${slot}`);
    return owner.server;
  }

  /** The masters that answer and serve slots. */
  async masters(): Promise<RedisServer[]> {
    const claims = await this.#claims();
    return claims
      .filter((claim) => claim.self.slots.some(({ first }) => ownerOf(first, claims) === claim))
      .map(({ server }) => server);
  }

  /** The replicas of a master that answer. */
  async replicasOf(master: RedisServer): Promise<RedisServer[]> {
    const masterId = this.nodeIdOf(master);
    return (await this.#claims())
      .filter(({ self }) => self.masterId === masterId)
      .map(({ server }) => server);
  }

  /** Moves a slot and its keys to another master. */
  async moveSlot(slot: number, to: RedisServer): Promise<void> {
    await this.beginMove(slot, to);
    await this.moveKeys(slot);
    await this.endMove(slot);
  }

  /** The first step of a move: from now on, the master of the slot sends whoever asks for a key it lacks to `to`. */
  async beginMove(slot: number, to: RedisServer): Promise<void> {
    const from = await this.masterOf(slot);
    await orderRedis(to.port, `CLUSTER SETSLOT ${slot} IMPORTING ${this.nodeIdOf(from)}`);
    await orderRedis(from.port, `CLUSTER SETSLOT ${slot} MIGRATING ${this.nodeIdOf(to)}`);
  }

  /** The second step: hands the keys over, one by one. */
  async moveKeys(slot: number): Promise<void> {
    const from = await this.masterOf(slot);
    const to = await this.#targetOf(slot, from);
    for (;;) {
      const key = await keyInSlot(from.port, slot);
      if (key === undefined) return;
      await moveKey(key, from, to);
    }
  }

  /** The last step: every master is told whose the slot is now. */
  async endMove(slot: number): Promise<void> {
    const from = await this.masterOf(slot);
    const to = await this.#targetOf(slot, from);
    const others = (await this.masters()).filter((master) => master !== from && master !== to);
    // First the one that gets it: if the others knew before it does, they would send clients to a master that refuses.
    for (const master of [to, from, ...others]) {
      await orderRedis(master.port, `CLUSTER SETSLOT ${slot} NODE ${this.nodeIdOf(to)}`);
    }
  }

  /** A planned failover: the replica takes its master's place. Resolves when all nodes that answer know. */
  async failover(replica: RedisServer): Promise<void> {
    const id = this.nodeIdOf(replica);
    let orderedAt = -Infinity;
    await until('every node knows the new master', async () => {
      // Soon after another failover the masters refuse to vote, and the order is forgotten.
      if (performance.now() - orderedAt > ORDER_AGAIN_MS && (await this.#isReplica(replica))) {
        orderedAt = performance.now();
        await orderRedis(replica.port, 'CLUSTER FAILOVER');
      }
      const views = await Promise.all(this.nodes.map(({ port }) => clusterNodes(port)));
      return views
        .filter((view) => view.length > 0)
        .every((view) =>
          view.some((node) => node.id === id && node.isMaster && node.slots.length > 0),
        );
    });
  }

  /** Ends everything; a second call does nothing. */
  async stop(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.stop()));
  }

  async #isReplica(server: RedisServer): Promise<boolean> {
    const nodes = await clusterNodes(server.port);
    return nodes.some(({ id, isMaster }) => id === this.nodeIdOf(server) && !isMaster);
  }

  async #claims(): Promise<Claim[]> {
    const claims = await Promise.all(
      this.nodes.map(async (server): Promise<Claim[]> => {
        const self = (await clusterNodes(server.port)).find(({ isMyself }) => isMyself);
        return self === undefined ? [] : [{ server, self }];
      }),
    );
    return claims.flat();
  }

  /** The node to which the master of a slot hands it over, which it notes in its own line: `[slot->-id]`. */
  async #targetOf(slot: number, from: RedisServer): Promise<RedisServer> {
    const answer = await askRedis(from.port, 'CLUSTER NODES');
    const id = new RegExp(`\\[${slot}->-([0-9a-f]{40})\\]`).exec(answer)?.[1];
    const target = this.nodes.find((node) => this.#ids.get(node) === id);
    if (target === undefined) throw new Error(`Slot ${slot} is not moving: call beginMove first`);
    return target;
  }
}

function startNode({
  nodeTimeoutMs = 2_000,
  requireFullCoverage,
  args = [],
}: RedisClusterOptions): Promise<RedisServer> {
  const coverage = requireFullCoverage === undefined ? [] : [requireFullCoverage ? 'yes' : 'no'];
  const ours = [
    ...['--cluster-enabled', 'yes', '--cluster-config-file', NODES_FILE],
    ...['--cluster-node-timeout', String(nodeTimeoutMs), '--cluster-announce-ip', '127.0.0.1'],
    ...['--repl-diskless-sync-delay', '0'],
    ...coverage.flatMap((value) => ['--cluster-require-full-coverage', value]),
  ];
  return startOnFreePort(
    (port) => RedisServer.start({ port, args: [...ours, ...args], keepFiles: [NODES_FILE] }),
    freeClusterPort,
  );
}

async function ownId(port: number): Promise<string> {
  const id = /[0-9a-f]{40}/.exec(await askRedis(port, 'CLUSTER MYID'))?.[0];
  if (id === undefined) throw new Error(`The cluster node on port ${port} does not answer`);
  return id;
}

function ownerOf(slot: number, claims: readonly Claim[]): Claim | undefined {
  return claims
    .filter(({ self }) => self.isMaster)
    .filter(({ self }) => self.slots.some(({ first, last }) => first <= slot && slot <= last))
    .sort((one, other) => other.self.epoch - one.self.epoch)[0];
}

/** Asking for one at a time leaves nothing to parse: an array of one string, which may contain line breaks. */
async function keyInSlot(port: number, slot: number): Promise<string | undefined> {
  const answer = await askRedis(port, `CLUSTER GETKEYSINSLOT ${slot} 1`, MOVE_LIMIT_MS);
  if (answer === '*0\r\n') return undefined;
  const key = /^\*1\r\n\$\d+\r\n([^]*)\r\n$/.exec(answer)?.[1];
  if (key === undefined) throw new Error(`The keys of slot ${slot} cannot be read: ${answer}`);
  return key;
}

async function moveKey(key: string, from: RedisServer, to: RedisServer): Promise<void> {
  const command = ['MIGRATE', '127.0.0.1', String(to.port), key, '0', String(MOVE_LIMIT_MS)];
  const answer = await askRedis(from.port, command, 2 * MOVE_LIMIT_MS);
  // NOKEY: it has expired in the meantime.
  if (!/^\+(OK|NOKEY)/.test(answer)) throw new Error(`"${key}" was not moved: ${answer.trim()}`);
}
