import type { LockServersListener } from '../connection/lock-servers.js';
import type { RedisHandshake } from '../connection/proof/redis-handshake.js';
import type { RedisConnectionsOptions } from '../connection/redis-connections.options.js';
import type { RedisClient } from '../connection/server/redis-client.js';
import type { RedisCluster } from '../connection/server/redis-cluster.js';
import type { ServerInfo } from '../connection/server/server-info.js';
import { clientAt, namedAddress, reachableAddress, slotIn } from './cluster-address.js';
import { ClusterNode } from './cluster-node.js';
import { ClusterOutages } from './cluster-outages.js';
import { lookAtCluster } from './cluster-view.js';
import type { ClusterView } from './origin-view.js';

/** The pause before the view of the cluster is refreshed. If that did not help, it grows up to a second. */
const LOOK_AFTER_MS = 250;
const LONGEST_PAUSE_MS = 1_000;

/** The total time limit of a refresh. */
const LOOK_LIMIT_MS = 5_000;

/** How many names are tried to find a key of a node. With three masters, each has a third of all keys. */
const MOST_NAMES = 10_000;

/** How long a node without slots is kept after a command was sent to it. */
const GUEST_MS = 60_000;

/**
 * The masters of a cluster and their slots. This knowledge is only a starting point: a node asked for a slot that it
 * does not have names the right one. The view is refreshed when that happens, and when a connection is lost, repeatedly
 * until every master can be reached.
 *
 * A node is in one of three states:
 *
 * - A master of the latest view. Its connections are open or being opened, and commands for its slots go there.
 * - A guest: another node has named it, but the latest view does not show it. It is about to get slots, or is importing
 *   their keys. Every redirection to it keeps it for another minute, so that not every redirected command makes new
 *   connections.
 * - Gone: it was neither at the last refresh. Its connections are closed, and its unanswered commands go to the new
 *   owner of their slot.
 */
export class ClusterNodes {
  readonly #client: RedisCluster;
  readonly #options: RedisConnectionsOptions;
  readonly #listener: LockServersListener;
  readonly #outages: ClusterOutages;
  readonly #nodes = new Map<string, ClusterNode>();
  /** The address of each slot's master, from the latest view, corrected by every `MOVED` since. */
  #slots: (string | undefined)[] = [];
  /** The client of any node, as a template for nodes known only by address. */
  #template: RedisClient | undefined;
  /** Whether nodes found from now on are opened in the background. */
  #isOpen = false;
  #isClosed = false;
  #looking: Promise<void> | undefined;
  #cancelLook: (() => void) | undefined;
  #pauseMs = LOOK_AFTER_MS;
  #onChange: (() => void)[] = [];
  readonly #end = new AbortController();

  constructor(
    client: RedisCluster,
    options: RedisConnectionsOptions,
    listener: LockServersListener,
  ) {
    this.#client = client;
    this.#options = options;
    this.#outages = new ClusterOutages(listener, (address) => this.#slots.includes(address));
    this.#listener = {
      ...listener,
      lost: (cause, address) => {
        this.#outages.begins(address, cause);
        this.lookSoon();
      },
      back: (address) => this.#outages.ends(address),
      inboxLost: (cause, address) => {
        listener.inboxLost(cause, address);
        this.lookSoon();
      },
    };
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  get all(): readonly ClusterNode[] {
    return [...this.#nodes.values()];
  }

  /** @param redisKey without the prefix that the connection puts before it */
  slotOf(redisKey: string): number {
    return slotIn(this.#client, redisKey);
  }

  /** The node to which commands for this slot go; undefined if none is known. */
  ofSlot(slot: number): ClusterNode | undefined {
    const address = this.#slots[slot];
    return address === undefined ? undefined : this.#nodes.get(address);
  }

  /**
   * Finds the masters, and opens connections to all of them. A refresh meanwhile may find others, which are opened in
   * another round. A node that cannot be opened counts only while it is known: if a replica has taken over, the replica
   * must be reached instead.
   * @throws LockConfigError · LockStoreError · LockAbortedError
   */
  async open(handshake: RedisHandshake, limitMs: number): Promise<ReadonlyMap<string, ServerInfo>> {
    const { clock } = this.#options;
    const until = clock.now() + limitMs;
    await handshake.step('find the masters of the cluster', this.#firstLook(handshake));
    const servers = new Map<string, ServerInfo>();
    for (;;) {
      const missing = this.all.filter(({ address }) => !servers.has(address));
      if (missing.length === 0) break;
      const opening = missing.map(async (node) => {
        servers.set(node.address, await node.open(Math.max(0, until - clock.now())));
      });
      const outcomes = await Promise.allSettled(opening);
      outcomes.forEach((outcome, i) => {
        if (outcome.status === 'rejected' && this.#knows(missing[i])) throw outcome.reason;
      });
    }
    this.#isOpen = true;
    return servers;
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelLook?.();
    this.#end.abort();
    for (const node of this.all) node.close();
    this.#changed();
  }

  // ---- corrections ------------------------------------------------------------------------------------------

  /** Called when a node has named another owner of this slot. */
  moved(slot: number, named: string, from: ClusterNode): void {
    if (this.#isClosed) return;
    this.#slots[slot] = this.at(named, from).address;
    this.#outages.review();
    this.lookSoon();
  }

  /** The node at an address named by another node. Without slots, it may be missing in the view of the cluster. */
  at(named: string, from: ClusterNode): ClusterNode {
    if (this.#isClosed) return from; // nothing is sent any more, and nothing would close a new node
    const known = namedAddress(named, from.address, [...this.#nodes.keys()]);
    const address = reachableAddress(this.#client, known);
    const like = this.#template as RedisClient; // a node has named the address, so there is one
    const node = this.#nodes.get(address) ?? this.#add(address, clientAt(like, address));
    node.guestUntil = this.#options.clock.now() + GUEST_MS;
    return node;
  }

  /** Requests a refresh of the view, which may be wrong. One refresh serves all requests in the pause before it. */
  lookSoon(): void {
    if (this.#cancelLook !== undefined || this.#isClosed) return;
    this.#cancelLook = this.#options.clock.after(this.#pauseMs, () => {
      this.#cancelLook = undefined;
      this.#pauseMs = Math.min(this.#pauseMs * 2, LONGEST_PAUSE_MS);
      this.look().catch(() => this.lookSoon());
    });
  }

  /** Resolves when the view has changed, or after this time. */
  changed(limitMs: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#options.clock.after(limitMs, resolve);
      this.#onChange.push(() => {
        cancel();
        resolve();
      });
    });
  }

  /** @throws the error of the node asked last, if none answers */
  look(): Promise<void> {
    this.#looking ??= this.#look().finally(() => (this.#looking = undefined));
    return this.#looking;
  }

  async #look(): Promise<void> {
    const reachable = this.all.filter(({ connections }) => connections.isReady);
    const view = await this.#view(reachable.map(({ address }) => address));
    if (!this.#isClosed) this.#learn(view);
  }

  /** Asks the known nodes first; if none answers, the client's configured addresses. */
  async #view(from: readonly string[]): Promise<ClusterView> {
    const lookAt = (nodes: readonly string[]): Promise<ClusterView> =>
      lookAtCluster(this.#client, nodes, this.#options.clock, LOOK_LIMIT_MS, this.#end.signal);
    return from.length === 0 ? lookAt([]) : lookAt(from).catch(() => lookAt([]));
  }

  async #firstLook(handshake: RedisHandshake): Promise<void> {
    while (!this.#isClosed) {
      try {
        return await this.look();
      } catch (error) {
        handshake.failed(error);
        await this.changed(LOOK_AFTER_MS);
      }
    }
  }

  /** Replaces the present knowledge with a view; only guests survive if missing in it. */
  #learn({ masters, slots }: ClusterView): void {
    const now = this.#options.clock.now();
    this.#slots = [...slots];
    for (const [address, client] of masters) {
      this.#template = client;
      const node = this.#nodes.get(address) ?? this.#add(address, client);
      node.guestUntil = 0;
    }
    for (const node of this.all)
      if (!masters.has(node.address) && node.guestUntil <= now) this.#drop(node);
    this.#outages.review();
    if (this.all.some(({ connections }) => !connections.isReady)) this.lookSoon();
    else this.#pauseMs = LOOK_AFTER_MS;
    this.#changed();
  }

  #changed(): void {
    for (const tell of this.#onChange.splice(0)) tell();
  }

  // ---- nodes ------------------------------------------------------------------------------------------------

  #add(address: string, client: RedisClient): ClusterNode {
    const someKey = (): string | undefined => this.#someKeyOf(address);
    const ours = this.#withClusterOptions(client);
    const node = new ClusterNode(address, ours, this.#options, this.#listener, someKey);
    this.#nodes.set(address, node);
    if (this.#isOpen) void node.openLater();
    return node;
  }

  /** False if a replica has taken over. Nodes present when the locks are closed stay known. */
  #knows(node: ClusterNode | undefined): boolean {
    return node !== undefined && this.#nodes.get(node.address) === node;
  }

  #drop(node: ClusterNode): void {
    this.#nodes.delete(node.address);
    node.close(`${node.address} is not a master of the cluster any more`);
    this.#outages.ends(node.address);
    this.#listener.inboxBack(node.address);
    this.#listener.rightsBack(node.address);
  }

  /**
   * A key of this node for the probe; undefined if it has none, because it has no slots, or because a hash tag in the
   * connection's prefix puts all locks on another node.
   */
  #someKeyOf(address: string): string | undefined {
    const { keys, processId } = this.#options;
    const has = (key: string): boolean => this.#slots[this.slotOf(keys.of(key)[0])] === address;
    for (let i = 0; i < MOST_NAMES; i++) {
      const key = `probe:${processId}:${i}`;
      if (has(key)) return key;
    }
    return undefined;
  }

  /** Applies the options of the cluster, because a password changed there applies to every node. */
  #withClusterOptions(node: RedisClient): RedisClient {
    const { options } = this.#client;
    const keyPrefix = options.keyPrefix ?? '';
    return {
      get options() {
        const { username, password } = options.redisOptions ?? {};
        const user = password === undefined ? {} : { username, password };
        return { ...node.options, ...user, keyPrefix };
      },
      duplicate: (override) => node.duplicate({ keyPrefix, ...override }),
    };
  }
}
