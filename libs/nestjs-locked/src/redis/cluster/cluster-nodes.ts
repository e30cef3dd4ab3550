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

/** How long to wait before the cluster is looked at. If that did not help, the pause grows up to a second. */
const LOOK_AFTER_MS = 250;
const LONGEST_PAUSE_MS = 1_000;

/** How long a look may take altogether. */
const LOOK_LIMIT_MS = 5_000;

/** How many names are tried to find a key of a node. Of three masters each has a third of all keys. */
const MOST_NAMES = 10_000;

/** For how long a node is kept that has no slots, after a command was sent there. */
const GUEST_MS = 60_000;

/**
 * The masters of a cluster, and who of them has which slots. What is known here is only good enough to begin with: a
 * node that is asked for a slot that it does not have names the right one. The cluster is looked at when that happens,
 * and when a connection is lost, again and again until every master can be reached.
 *
 * A node is in one of three states:
 *
 * - A master of the latest view. Its connections are open or being opened, and commands for its slots go there.
 * - A guest: another node has named it, and the latest view does not show it. It is about to get slots, or their keys
 *   arrive one by one. Every redirection to it keeps it for another minute, so that not every redirected command makes
 *   new connections.
 * - Gone: it was neither when the cluster was looked at. Its connections are closed, and commands that it has not
 *   answered look for the new owner of their slot.
 */
export class ClusterNodes {
  readonly #client: RedisCluster;
  readonly #options: RedisConnectionsOptions;
  readonly #listener: LockServersListener;
  readonly #outages: ClusterOutages;
  readonly #nodes = new Map<string, ClusterNode>();
  /** The address of each slot's master: of the latest view, corrected by every `MOVED` since. */
  #slots: (string | undefined)[] = [];
  /** The client of some node, for connections to a node that is known by its address only. */
  #template: RedisClient | undefined;
  /** Nodes that are found from now on are opened without anybody waiting for them. */
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
   * Finds the masters, and opens connections to all of them. A look in between may find others, which are opened in
   * another round. That a node cannot be opened counts only while it is known: if a replica has taken over for it, the
   * replica is what must be reached.
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

  /** A node has said that this slot belongs to another one. */
  moved(slot: number, named: string, from: ClusterNode): void {
    if (this.#isClosed) return;
    this.#slots[slot] = this.at(named, from).address;
    this.#outages.review();
    this.lookSoon();
  }

  /** The node at an address that another node has named. It may have no slots, and so be in no view of the cluster. */
  at(named: string, from: ClusterNode): ClusterNode {
    if (this.#isClosed) return from; // nothing is sent any more, and nobody would close a node that is new
    const known = namedAddress(named, from.address, [...this.#nodes.keys()]);
    const address = reachableAddress(this.#client, known);
    const like = this.#template as RedisClient; // somebody has named the address, so there is a node
    const node = this.#nodes.get(address) ?? this.#add(address, clientAt(like, address));
    node.guestUntil = this.#options.clock.now() + GUEST_MS;
    return node;
  }

  /** What is known may be wrong. A single look serves all who say so in the pause before it. */
  lookSoon(): void {
    if (this.#cancelLook !== undefined || this.#isClosed) return;
    this.#cancelLook = this.#options.clock.after(this.#pauseMs, () => {
      this.#cancelLook = undefined;
      this.#pauseMs = Math.min(this.#pauseMs * 2, LONGEST_PAUSE_MS);
      this.look().catch(() => this.lookSoon());
    });
  }

  /** Settles when more is known, or after this time. */
  changed(limitMs: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#options.clock.after(limitMs, resolve);
      this.#onChange.push(() => {
        cancel();
        resolve();
      });
    });
  }

  /** @throws Error of the node that was asked last, if none answers */
  look(): Promise<void> {
    this.#looking ??= this.#look().finally(() => (this.#looking = undefined));
    return this.#looking;
  }

  async #look(): Promise<void> {
    const reachable = this.all.filter(({ connections }) => connections.isReady);
    const view = await this.#view(reachable.map(({ address }) => address));
    if (!this.#isClosed) this.#learn(view);
  }

  /** Whoever is there knows best; if none of them answers, the client's own addresses are tried. */
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

  /** A view replaces what is known; only guests survive one that does not show them. */
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

  /** False if a replica has taken over for it. The nodes that are there when the locks are closed stay known. */
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
   * A key that this node has, for a script that tries everything; undefined if it has none, because it has no slots, or
   * because a hash tag in the prefix of the connection keeps all locks together elsewhere.
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

  /** As the options of the cluster would have it; a password that was changed there is meant for every node. */
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
